// Package a2astore lets several processes serve one A2A agent: it keeps what the cluster mode
// of github.com/a2aproject/a2a-go/v2 needs in an agentstore. README.md says what maps to what.
package a2astore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/eventqueue"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/a2aproject/a2a-go/v2/a2asrv/workqueue"

	"github.com/seed-df90f812/agentstore/repo"
)

// Options configures a Cluster. The zero value has the defaults.
type Options struct {
	// Name tells clusters in one database apart. It has 1 to 100 ASCII letters, digits, '.',
	// '_' or '-', and begins with a letter or digit. Empty: "a2a".
	Name string
	// Authenticator returns the user of a request, and only that user gets its tasks. Work keeps the user of its
	// request. Nil: a2asrv.NewTaskStoreAuthenticator.
	Authenticator taskstore.Authenticator
	// TTL is how long the work of a process that died waits for another one, from
	// repo.MinLeaseTTL to repo.MaxLeaseTTL. Zero: 15 seconds.
	TTL time.Duration
	// MaxAttempts is how often work is begun before its task is failed, at most 1000. Zero: 5.
	MaxAttempts int
}

// Cluster is one process of a cluster. Its parts belong together: Events reads what Tasks has
// written, and Work looks at it. All are safe for concurrent use, and keep none of their
// caller's memory.
type Cluster struct {
	Tasks  taskstore.Store
	Events eventqueue.Manager
	Work   workqueue.ReadWriter
	Leases workqueue.LeaseManager // for a work queue of another kind; Work has the same leases
	Push   push.ConfigStore       // for a2asrv.WithPushNotifications

	store   repo.Store
	options Options
	owner   string          // holds the leases of this process
	action  string          // whose plans are the work
	closing context.Context //nolint:containedctx // it ends with Close
	cancel  context.CancelFunc
}

const argument = "session" // of the action: the task's session

// New returns a cluster on a store, which the caller closes after it. Errors: repo.InvalidError, and
// errors of repo.Actions.
func New(ctx context.Context, store repo.Store, options Options) (*Cluster, error) {
	options.Name = cmp.Or(options.Name, "a2a")
	options.TTL = cmp.Or(options.TTL, 15*time.Second)
	options.MaxAttempts = cmp.Or(options.MaxAttempts, 5)
	if options.Authenticator == nil {
		options.Authenticator = a2asrv.NewTaskStoreAuthenticator()
	}
	if options.TTL < repo.MinLeaseTTL || options.TTL > repo.MaxLeaseTTL {
		return nil, &repo.InvalidError{Field: "ttl", Reason: "is not between repo.MinLeaseTTL and repo.MaxLeaseTTL"}
	} else if options.MaxAttempts < 0 || options.MaxAttempts > 1000 {
		return nil, &repo.InvalidError{Field: "max_attempts", Reason: "is not between 1 and 1000"}
	}
	arguments := []repo.Argument{{Name: argument, Type: repo.ArgumentString, Required: true}}
	definition := repo.ActionDefinition{Reusable: true, Arguments: arguments, MaxAttempts: 1003} // the last ones are for ended
	action, err := store.Actions().Create(ctx, repo.NewAction{Name: options.Name + "/work", ActionDefinition: definition})
	if err != nil {
		return nil, err
	}
	c := &Cluster{store: store, options: options, action: action.Name.String(), owner: options.Name + "/" + repo.NewID().String()}
	c.closing, c.cancel = context.WithCancel(context.Background())
	c.Tasks, c.Events, c.Work, c.Leases, c.Push = tasks{c}, events{c}, work{c}, leases{c}, configs{c}
	return c, nil
}

// Config is what a2asrv.WithClusterMode takes.
func (c *Cluster) Config() a2asrv.ClusterConfig {
	retry := &workqueue.ExponentialReadBackoff{BaseDelay: 50 * time.Millisecond, MaxDelay: 5 * time.Second}
	queue := workqueue.NewPullQueue(c.Work, &workqueue.PullQueueConfig{ReadRetry: retry})
	return a2asrv.ClusterConfig{TaskStore: c.Tasks, QueueManager: c.Events, WorkQueue: queue}
}

// Close takes no more work. What was begun goes on until it has ended, or until the store is
// closed: then another process begins it again.
func (c *Cluster) Close() { c.cancel() }

// key returns the key of a task's session.
func (c *Cluster) key(id a2a.TaskID) repo.SessionKey {
	return repo.SessionKey{Namespace: c.options.Name, Key: string(id)}
}

// working returns the work in whose context ctx is, or nil.
func working(ctx context.Context) *message {
	heartbeater, _ := workqueue.HeartbeaterFrom(ctx)
	m, _ := heartbeater.(*message)
	return m
}

// user returns the user of the request, also for its work.
func (c *Cluster) user(ctx context.Context) (string, error) {
	if m := working(ctx); m != nil {
		return m.session.Owner, nil
	}
	return c.options.Authenticator(ctx)
}

// sessionOf returns the session of the user's task, also before the task is stored. Another user's task is not found. A request
// makes the session; work does not make it again, since its task was deleted.
func (c *Cluster) sessionOf(ctx context.Context, id a2a.TaskID) (session repo.Session, err error) {
	user, err := c.user(ctx)
	if err == nil && id == "" {
		err = fmt.Errorf("task has no id: %w", a2a.ErrInvalidParams)
	}
	if err != nil {
		return repo.Session{}, err
	}
	if m := working(ctx); m != nil && m.payload.TaskID == id {
		session, err = c.store.Sessions().Get(ctx, m.session.ID)
	} else {
		session, err = c.store.Sessions().Create(ctx, repo.NewSession{Namespace: c.options.Name, Key: string(id), Owner: user, Existing: repo.ExistingAny})
	}
	if err == nil && session.Owner != user {
		err = a2a.ErrTaskNotFound
	}
	return session, notFound(err)
}

// notFound says of a session that was deleted that there is no such task.
func notFound(err error) error {
	if missing, is := errors.AsType[*repo.NotFoundError](err); is && missing.Kind == "session" {
		return fmt.Errorf("%w: %w", a2a.ErrTaskNotFound, err)
	}
	return err
}
