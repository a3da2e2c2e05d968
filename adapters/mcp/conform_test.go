package mcpstore

import "github.com/modelcontextprotocol/go-sdk/mcp"

var _ mcp.EventStore = (*EventStore)(nil)
