// Package mcp tests adapters/mcp with the SDK's own client and server, on PostgreSQL and in
// memory.
package mcp
