package tables

var auditRules = map[string]string{
	"audit_entries_occurred_at_check": "occurred_at = 'infinity'",
	"audit_entries_type_check":        "type = 'Tool'",
	"audit_entries_actor_check":       "actor = ''",
	"audit_entries_user_name_check":   "user_name = ''",
	"audit_entries_project_check":     "project = ''",
	"audit_entries_details_check":     "details = '[]'",
	"audit_entries_namespace_check":   "namespace = ''",
	"audit_entries_salts_check":       "salts = salts[1:3]",
	"audit_leaves_entry_id_key":       "sequence = 1000",
	"audit_leaves_sequence_check":     "sequence = -1",
	"audit_leaves_hash_check":         "hash = ''",
	"audit_leaves_hidden_check":       "hidden = ''",
	"audit_hashes_index_check":        "index = -1",
	"audit_hashes_hash_check":         "hash = ''",
	"audit_checkpoints_size_check":    "size = -1",
	"audit_checkpoints_root_check":    "root = ''",
	"audit_holds_kind_check":          "kind = 'x'",
	"audit_holds_reason_check":        "reason = ''",
}
