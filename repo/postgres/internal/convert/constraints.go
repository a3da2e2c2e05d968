package convert

// The constraints that the code knows by name. A test compares them with the
// migrated database, so that one that is renamed there is found.
const (
	UniqueMessageID = "messages_session_id_id_key"
	PlanAction      = "plans_action_name_fkey"
	LinkSession     = "session_plans_session_id_fkey"
	StateSession    = "state_scopes_session_id_fkey"
	StreamSession   = "streams_session_id_fkey"
	UniqueTurnID    = "session_turns_pkey"
	UniqueChosenID  = "session_ids_pkey"
	UniquePart      = "stream_parts_pkey"
)
