package audit

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A role that may create functions and operators in the schema cannot make the
// trail's functions run them as the owner.
// Guarantee: The audit trail: Functions that run as the owner call nothing of others.
func TestNoFunctionOfOthersRunsAsOwner(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	owner := pgtest.Connect(t, databaseURL)
	role := "creator_" + strings.ToLower(rand.Text())
	pgtest.Exec(t, owner, "CREATE ROLE "+role+" LOGIN PASSWORD '"+role+"'; GRANT CREATE ON SCHEMA public TO "+role+"; GRANT SELECT, INSERT ON audit_entries TO "+role)
	defer pgtest.Exec(t, owner, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	conn := pgtest.Connect(t, pgtest.WithUser(databaseURL, role, role))
	defer func() { _ = conn.Close(t.Context()) }()
	pgtest.Exec(t, conn, `
		CREATE TABLE public.seen (what text, who text);
		GRANT ALL ON public.seen TO PUBLIC;
		CREATE FUNCTION public.hashtextextended(text, integer) RETURNS bigint LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO public.seen VALUES ('hashtextextended', current_user); RETURN 0; END $$;
		CREATE FUNCTION public.format(text, text) RETURNS text LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO public.seen VALUES ('format', current_user); RETURN pg_catalog.format($1, $2); END $$;
		CREATE FUNCTION public.concat(text, name) RETURNS text LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO public.seen VALUES ('||', current_user); RETURN $1 OPERATOR(pg_catalog.||) $2::text; END $$;
		CREATE OPERATOR public.|| (LEFTARG = text, RIGHTARG = name, FUNCTION = public.concat);
		CREATE FUNCTION public.format(text, name) RETURNS text LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO public.seen VALUES ('format', current_user); RETURN pg_catalog.format($1, $2); END $$;
		CREATE FUNCTION public.array_agg(uuid) RETURNS uuid[] LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO public.seen VALUES ('array_agg', current_user); RETURN ARRAY[$1]; END $$;
		CREATE FUNCTION public.same(text, text) RETURNS boolean LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO public.seen VALUES ('=', current_user); RETURN $1 OPERATOR(pg_catalog.=) $2; END $$`)
	pgtest.Exec(t, conn, "INSERT INTO audit_entries (occurred_at, id, type) VALUES ('2030-01-15Z', gen_random_uuid(), 'tool_invoked')")
	wantCode(t, owner, refused, "DELETE FROM audit_entries")
	if who := pgtest.Value[string](t, owner, "SELECT coalesce(string_agg(DISTINCT what || ' as ' || who, ', '), '') FROM public.seen"); who != "" {
		t.Errorf("the trail's functions ran functions of another role: %s", who)
	}
}
