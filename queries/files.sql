-- The bytes of files, in chunks of one length. Nothing refers to a blob before all of its chunks are committed.

-- name: FileChunkInsert :exec
-- Index: none. Adds a chunk to a blob that is being written. Its commit waits for no disk: that of the version which
-- refers to it comes later in the same log, and does.
INSERT INTO file_chunks (namespace, blob, position, data)
SELECT @namespace, @blob, @position::integer, @data::bytea
FROM set_config('synchronous_commit', 'off', true);

-- name: FileChunkGet :one
-- Index: file_chunks_pkey. Returns a chunk from an offset in it on.
SELECT substr(data, @first::integer)::bytea AS data FROM file_chunks
WHERE namespace = @namespace AND blob = @blob AND position = @position;

-- name: FileChunkDelete :execrows
-- Index: file_chunks_pkey, twice. Removes some chunks of a blob, of which a part may be gone.
DELETE FROM file_chunks c WHERE c.namespace = @namespace AND c.blob = @blob AND c.position = ANY (ARRAY(
    SELECT d.position FROM file_chunks d WHERE d.namespace = @namespace AND d.blob = @blob
    ORDER BY d.position LIMIT @max_rows));
