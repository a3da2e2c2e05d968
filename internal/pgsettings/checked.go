package pgsettings

import "github.com/jackc/pgx/v5/pgxpool"

// Checked is a pool whose database and settings were looked at, or are by the operations on it.
// Importers of the library cannot make one, so that package agentstore is the one way onto a pool.
type Checked struct{ *pgxpool.Pool }
