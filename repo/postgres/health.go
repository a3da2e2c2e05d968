package postgres

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// Health says what this process does, and what makes writes slower although they wait for no lock:
// dead row versions, and what keeps PostgreSQL from removing them.
type Health struct {
	Stats
	// Holders have an old snapshot, or a transaction that has written and is still open: at most ten,
	// the oldest first. Short ones belong to statements under way. An age of more than a minute is
	// worth a look.
	Holders []Holder
	// Tables are the tables whose rows are changed or deleted often, by the number of dead versions.
	Tables []TableHealth
	// Compression is how the server compresses the content of messages from now on: "lz4" or "pglz". With pglz (PostgreSQL
	// 13, or a server built without lz4) texts of 100 kB take twice the time.
	Compression string
}

// Holder keeps row versions from being removed that have died since its snapshot was taken, or since
// it first wrote.
type Holder struct {
	// Kind is "session", "standby" (which gives feedback), "slot" (of replication) or "prepared" (a
	// prepared transaction).
	Kind string
	// Name is the application's, the slot's, or the prepared transaction's. PID is the process'. 0:
	// none.
	Name string
	PID  int
	// Since is when its transaction began. The zero time: the server does not say. Of sessions of
	// other roles it says so only to members of pg_read_all_stats.
	Since time.Time
	// Age is the number of transactions that have begun since.
	Age int64
}

// TableHealth has the server's estimates of a table's rows.
type TableHealth struct {
	Name       string
	Live, Dead int64
	// VacuumedAt is the zero time if that never happened, as far as the server remembers.
	VacuumedAt time.Time
}

// Health asks the server, with three statements. With an error it has the Stats alone. It reads no table of the
// store's, and has nothing of what is stored. Errors: repo.ErrUnavailable, repo.ErrPermission, repo.ErrSchema,
// repo.ErrClosed, and the context's.
func (s *Store) Health(ctx context.Context) (Health, error) {
	var holders []db.HealthHoldersRow
	var tables []db.HealthTablesRow
	var compression string
	err := s.exec.read(ctx, func(q db.DBTX) (err error) {
		if holders, err = queries.HealthHolders(ctx, q); err != nil {
			return err
		}
		if tables, err = queries.HealthTables(ctx, q); err != nil {
			return err
		}
		compression, err = queries.HealthCompression(ctx, q)
		return err
	})
	if err != nil {
		return Health{Stats: s.Stats()}, err
	}
	return Health{
		Stats: s.Stats(),
		Holders: convert.Each(holders, func(row db.HealthHoldersRow) Holder {
			h := Holder{Kind: row.Kind, Name: row.Name, PID: int(row.Pid), Age: row.Age}
			if row.Since != nil {
				h.Since = row.Since.UTC()
			}
			return h
		}),
		Tables: convert.Each(tables, func(row db.HealthTablesRow) TableHealth {
			return TableHealth{Name: row.Name, Live: row.Live, Dead: row.Dead, VacuumedAt: row.VacuumedAt.UTC()}
		}),
		Compression: compression,
	}, nil
}
