-- oldest library: 4

-- +goose Up

-- Tells a session apart from others that had its id, also from one that was imported with its
-- times. Null is that of a session from before this version, of which an id has one. The default
-- is set in a statement of its own, so that the table is not rewritten.
ALTER TABLE sessions ADD COLUMN incarnation uuid;
ALTER TABLE sessions ALTER COLUMN incarnation SET DEFAULT gen_random_uuid();

-- +goose Down

-- What is lost identifies a session to those alone who read it at the moment.
ALTER TABLE sessions DROP COLUMN incarnation;
