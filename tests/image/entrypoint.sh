#!/bin/sh
# Makes a cluster on the first start, then becomes the server. It honours what
# the official image's users set: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB,
# PGDATA, and arguments for postgres.
set -eu

user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}

# The server refuses to run as root.
if [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA" /run/postgresql
	chown -R postgres:postgres "$PGDATA" /run/postgresql
	chmod 700 "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --init-groups sh "$0" "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	: "${POSTGRES_PASSWORD:?must be set}"
	# The password goes by a file, not by an argument, which others can see.
	printf '%s\n' "$POSTGRES_PASSWORD" > /run/postgresql/password
	initdb --pgdata="$PGDATA" --username="$user" --pwfile=/run/postgresql/password \
		--encoding=UTF8 --locale=C.UTF-8 --auth-host=scram-sha-256 --auth-local=trust > /dev/null
	rm /run/postgresql/password
	# In the file, because a caller's command line replaces the one here.
	echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
	echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
	# A start without the network makes the database. Its log says that the server
	# is ready once before the real start does, which is what the waiting for the
	# official image counts on.
	pg_ctl --pgdata="$PGDATA" --options="-c listen_addresses=''" --wait start
	if [ "$database" != postgres ]; then
		createdb --username="$user" --maintenance-db=postgres "$database"
	fi
	pg_ctl --pgdata="$PGDATA" --mode=fast --wait stop
fi

exec "$@"
