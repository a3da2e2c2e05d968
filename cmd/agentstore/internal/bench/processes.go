package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
)

// WorkerVariable is set in the environment of a worker process of a workload with
// several processes: it runs only Work.
const WorkerVariable = "AGENTSTORE_BENCH_WORKER"

// assignment is what a worker gets in its environment.
type assignment struct {
	Schema      string    `json:"schema"`
	Writers     int       `json:"writers"`
	Connections int32     `json:"connections"` // of baselines
	Sessions    []repo.ID `json:"sessions"`
}

// order is a line of a worker's input; result is one of its output.
type order struct {
	Way      string        `json:"way"`
	Duration time.Duration `json:"duration"`
}

type result struct {
	Operations int             `json:"operations"`
	Rows       int             `json:"rows"`
	Took       time.Duration   `json:"took"`
	Latencies  []time.Duration `json:"latencies"`
	Error      string          `json:"error,omitempty"`
}

// Work executes the orders of a worker's input until that ends.
func Work(ctx context.Context, config *pgxpool.Config, assigned string, in io.Reader, out io.Writer) error {
	var a assignment
	if err := json.Unmarshal([]byte(assigned), &a); err != nil {
		return fmt.Errorf("%s: %w", WorkerVariable, err)
	}
	l := &lab{options: Options{Config: config}, schema: a.Schema, connections: a.Connections}
	defer l.close()
	err := l.connect(ctx)
	if err == nil {
		err = l.open(ctx, false)
	}
	if err != nil {
		return err
	}
	messages := batch(1, messageSize)
	orders, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		s, err := appending(l.appender(o.Way), a.Writers, a.Sessions, messages)(ctx, o.Duration)
		r := result{Operations: s.operations, Rows: s.rows, Took: s.took, Latencies: s.latencies}
		if err != nil {
			r.Error = err.Error()
		}
		if err := results.Encode(r); err != nil {
			return err
		}
	}
}

// worker is a running process of Work.
type worker struct {
	command *exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	results *json.Decoder
}

// startWorker starts another process of this binary.
func (l *lab) startWorker(ctx context.Context, a assignment) (*worker, error) {
	binary, noBinary := os.Executable()
	assigned, noText := json.Marshal(a)
	command := exec.CommandContext(ctx, binary, "bench")
	command.Env = append(os.Environ(), WorkerVariable+"="+string(assigned), "DATABASE_URL="+l.options.DatabaseURL)
	command.Stderr = l.options.Progress
	in, noIn := command.StdinPipe()
	out, noOut := command.StdoutPipe()
	if err := errors.Join(noBinary, noText, noIn, noOut); err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &worker{command: command, in: in, orders: json.NewEncoder(in), results: json.NewDecoder(bufio.NewReader(out))}, nil
}

// processes compares ways of appending to one session from several processes.
func processes(count, writers int, ways ...string) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		ids, err := l.sessions(ctx, 1)
		if err != nil {
			return nil, err
		}
		// The workers need the connections, which are idle in this process.
		l.baselines.Reset()
		free := int32(l.server.MaxConnections) - 2*reservedConns - int32(count+1)*l.server.StoreConnections
		a := assignment{
			Schema: l.schema, Writers: writers, Sessions: ids,
			Connections: min(int32(writers), max(1, free/int32(count))),
		}
		var workers []*worker
		cells := make([]cell, len(ways))
		for i, way := range ways {
			cells[i] = cell{way: way, run: func(_ context.Context, duration time.Duration) (sample, error) {
				return together(workers, order{Way: way, Duration: duration})
			}}
		}
		cells[0].end = func() {
			for _, w := range workers {
				_ = w.in.Close() // ends the worker
				_ = w.command.Wait()
			}
		}
		for range count {
			w, err := l.startWorker(ctx, a)
			if err != nil {
				return cells, fmt.Errorf("start a process: %w", err)
			}
			workers = append(workers, w)
		}
		return cells, nil
	}
}

// together has all workers execute an order at the same time.
func together(workers []*worker, o order) (sample, error) {
	for _, w := range workers {
		if err := w.orders.Encode(o); err != nil {
			return sample{}, fmt.Errorf("a process: %w", err)
		}
	}
	var total sample
	for _, w := range workers {
		var r result
		err := w.results.Decode(&r)
		if r.Error != "" {
			err = errors.New(r.Error)
		}
		if err != nil {
			return sample{}, fmt.Errorf("a process: %w", err)
		}
		total.beside(sample{operations: r.Operations, rows: r.Rows, took: r.Took, latencies: r.Latencies})
	}
	return total, nil
}
