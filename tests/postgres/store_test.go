package postgres

import (
	"github.com/seed-df90f812/agentstore/repo"
)

func user(content string) repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleUser, Content: content}
}
