package a2astore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"

	"github.com/seed-df90f812/agentstore/repo"
)

// configs keeps a task's push configurations in a shared state: they may be there before the task.
type configs struct{ *Cluster }

func (p configs) scope(id a2a.TaskID) repo.Scope {
	return repo.Scope{Name: repo.JoinKey("a2a push", p.options.Name, string(id))}
}

func (p configs) Save(ctx context.Context, id a2a.TaskID, config *a2a.PushConfig) (*a2a.PushConfig, error) {
	if config == nil {
		return nil, fmt.Errorf("no push config: %w", a2a.ErrInvalidParams)
	} else if _, err := url.ParseRequestURI(config.URL); err != nil { // whose text has the secrets of the URL
		return nil, fmt.Errorf("push config endpoint is not a URL: %w", a2a.ErrInvalidParams)
	}
	saved := *config
	saved.TaskID, saved.ID = id, cmp.Or(config.ID, repo.NewID().String())
	value, err := json.Marshal(saved)
	if err == nil {
		_, err = p.store.State().Change(ctx, []repo.StateChange{{Scope: p.scope(id), Key: saved.ID, Value: value}})
	}
	if err != nil {
		return nil, err
	}
	return decode(value)
}

func decode(value []byte) (*a2a.PushConfig, error) {
	config := &a2a.PushConfig{}
	return config, json.Unmarshal(value, config)
}

func (p configs) Get(ctx context.Context, id a2a.TaskID, configID string) (*a2a.PushConfig, error) {
	value, err := p.store.State().Get(ctx, p.scope(id), configID)
	if errors.Is(err, repo.ErrNotFound) {
		return nil, push.ErrPushConfigNotFound
	} else if err != nil {
		return nil, err
	}
	return decode(value.Value)
}

func (p configs) List(ctx context.Context, id a2a.TaskID) ([]*a2a.PushConfig, error) {
	for list, page := []*a2a.PushConfig{}, (repo.Page{Limit: repo.MaxPageSize}); ; {
		listed, err := p.store.State().List(ctx, p.scope(id), "", page)
		for i := 0; i < len(listed.Values) && err == nil; i++ {
			var config *a2a.PushConfig
			config, err = decode(listed.Values[i].Value)
			list = append(list, config)
		}
		if page.After = listed.Next; err != nil || page.After == "" {
			return list, err
		}
	}
}

func (p configs) Delete(ctx context.Context, id a2a.TaskID, configID string) error {
	_, err := p.store.State().Change(ctx, []repo.StateChange{{Scope: p.scope(id), Key: configID, Op: repo.StateRemove}})
	return err
}

func (p configs) DeleteAll(ctx context.Context, id a2a.TaskID) error {
	_, err := p.store.State().Erase(ctx, p.scope(id).Name)
	return err
}
