-- The bytes of files, in rows of one length but for the last. Nothing refers to a blob before all of it is committed.

-- name: FileChunksInsert :exec
-- Index: none. Adds rows to a blob that is being written. Their commit waits for no disk: the commit of the version
-- which refers to them comes later in the same log, and does.
WITH given AS (SELECT @data::bytea AS data, @first::integer AS first),
parts AS (SELECT data, first, generate_series(0, (octet_length(data) - 1) / 7900) AS n FROM given),
setting AS (SELECT set_config('synchronous_commit', 'off', true))
INSERT INTO file_chunks (namespace, blob, position, data)
SELECT @namespace, @blob, parts.first + parts.n, substr(parts.data, parts.n * 7900 + 1, 7900) FROM parts, setting;

-- name: FileChunksGet :one
-- Index: file_chunks_pkey. Returns the bytes of some rows; NULL if there are none.
SELECT string_agg(c.data, ''::bytea ORDER BY c.position)::bytea AS data FROM file_chunks c
WHERE c.namespace = @namespace AND c.blob = @blob AND c.position >= @first AND c.position < @before;

-- name: FileChunksDelete :one
-- Index: file_chunks_pkey, twice. Removes the last rows of a blob, so that what is left of it is its beginning, and
-- returns how many it has found: another one at once may have removed them, and be ended before the rest.
WITH last AS (SELECT d.position FROM file_chunks d WHERE d.namespace = @namespace AND d.blob = @blob
    ORDER BY d.position DESC LIMIT @max_rows), gone AS (DELETE FROM file_chunks c WHERE c.namespace = @namespace
    AND c.blob = @blob AND c.position = ANY (ARRAY(SELECT position FROM last))) SELECT count(*) FROM last;
