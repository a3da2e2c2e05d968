package postgres

// The constraints that the code knows by name. A test compares them with the
// migrated database, so that one that is renamed there is found.
const (
	uniqueMessageID = "messages_session_id_id_key"
	planAction      = "plans_action_name_fkey"
	linkSession     = "session_plans_session_id_fkey"
	stateSession    = "state_scopes_session_id_fkey"
	streamSession   = "streams_session_id_fkey"
	uniqueTurnID    = "session_turns_pkey"
	uniqueChosenID  = "session_ids_pkey"
	uniquePart      = "stream_parts_pkey"
)
