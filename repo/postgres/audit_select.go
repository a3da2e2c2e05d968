package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// auditSelection is a list's or a count's arguments. It picks the query of the
// column that selects most of those that are set.
type auditSelection struct {
	from, before, at time.Time
	id               pgtype.UUID
	plan, session    pgtype.UUID
	user, actor      string
	project, kind    string
	limit            int32
}

func auditSelectionOf(f repo.AuditFilter, at time.Time, id repo.ID, limit int) auditSelection {
	from, before := f.Bounds()
	return auditSelection{
		from: from, before: before, at: at, id: toUUID(id),
		plan: toOptionalUUID(f.PlanID), session: toOptionalUUID(f.SessionID),
		user: f.User, actor: f.Actor, project: f.Project, kind: string(f.Type),
		limit: int32(limit),
	}
}

func (s *auditSelection) list(ctx context.Context, q db.DBTX, order repo.AuditOrder) ([]db.AuditEntry, error) {
	if order == repo.OldestFirst {
		return s.ascending(ctx, q)
	}
	switch {
	case s.plan.Valid:
		return queries.AuditListByPlanDescending(ctx, q, db.AuditListByPlanDescendingParams(s.byPlan()))
	case s.session.Valid:
		return queries.AuditListBySessionDescending(ctx, q, db.AuditListBySessionDescendingParams(s.bySession()))
	case s.user != "":
		return queries.AuditListByUserDescending(ctx, q, db.AuditListByUserDescendingParams(s.byUser()))
	case s.actor != "":
		return queries.AuditListByActorDescending(ctx, q, db.AuditListByActorDescendingParams(s.byActor()))
	case s.project != "":
		return queries.AuditListByProjectDescending(ctx, q, db.AuditListByProjectDescendingParams(s.byProject()))
	case s.kind != "":
		return queries.AuditListByTypeDescending(ctx, q, db.AuditListByTypeDescendingParams(s.byType()))
	default:
		return queries.AuditListDescending(ctx, q, db.AuditListDescendingParams(s.byTime()))
	}
}

func (s *auditSelection) ascending(ctx context.Context, q db.DBTX) ([]db.AuditEntry, error) {
	switch {
	case s.plan.Valid:
		return queries.AuditListByPlanAscending(ctx, q, s.byPlan())
	case s.session.Valid:
		return queries.AuditListBySessionAscending(ctx, q, s.bySession())
	case s.user != "":
		return queries.AuditListByUserAscending(ctx, q, s.byUser())
	case s.actor != "":
		return queries.AuditListByActorAscending(ctx, q, s.byActor())
	case s.project != "":
		return queries.AuditListByProjectAscending(ctx, q, s.byProject())
	case s.kind != "":
		return queries.AuditListByTypeAscending(ctx, q, s.byType())
	default:
		return queries.AuditListAscending(ctx, q, s.byTime())
	}
}

func (s *auditSelection) byPlan() db.AuditListByPlanAscendingParams {
	return db.AuditListByPlanAscendingParams{
		PlanID: s.plan, OccurredFrom: s.from, OccurredBefore: s.before, AfterOccurredAt: s.at, AfterID: s.id, MaxRows: s.limit,
		SessionID: s.session, UserName: s.user, Actor: s.actor, Project: s.project, Type: s.kind,
	}
}

func (s *auditSelection) bySession() db.AuditListBySessionAscendingParams {
	return db.AuditListBySessionAscendingParams{
		SessionID: s.session, OccurredFrom: s.from, OccurredBefore: s.before, AfterOccurredAt: s.at, AfterID: s.id, MaxRows: s.limit,
		UserName: s.user, Actor: s.actor, Project: s.project, Type: s.kind,
	}
}

func (s *auditSelection) byUser() db.AuditListByUserAscendingParams {
	return db.AuditListByUserAscendingParams{
		UserName: s.user, OccurredFrom: s.from, OccurredBefore: s.before, AfterOccurredAt: s.at, AfterID: s.id, MaxRows: s.limit,
		Actor: s.actor, Project: s.project, Type: s.kind,
	}
}

func (s *auditSelection) byActor() db.AuditListByActorAscendingParams {
	return db.AuditListByActorAscendingParams{
		Actor: s.actor, OccurredFrom: s.from, OccurredBefore: s.before, AfterOccurredAt: s.at, AfterID: s.id, MaxRows: s.limit,
		Project: s.project, Type: s.kind,
	}
}

func (s *auditSelection) byProject() db.AuditListByProjectAscendingParams {
	return db.AuditListByProjectAscendingParams{
		Project: s.project, OccurredFrom: s.from, OccurredBefore: s.before, AfterOccurredAt: s.at, AfterID: s.id, MaxRows: s.limit,
		Type: s.kind,
	}
}

func (s *auditSelection) byType() db.AuditListByTypeAscendingParams {
	return db.AuditListByTypeAscendingParams{
		Type: s.kind, OccurredFrom: s.from, OccurredBefore: s.before, AfterOccurredAt: s.at, AfterID: s.id, MaxRows: s.limit,
	}
}

func (s *auditSelection) byTime() db.AuditListAscendingParams {
	return db.AuditListAscendingParams{
		OccurredFrom: s.from, OccurredBefore: s.before, AfterOccurredAt: s.at, AfterID: s.id, MaxRows: s.limit,
	}
}

func (s *auditSelection) count(ctx context.Context, q db.DBTX) (int64, error) {
	switch {
	case s.plan.Valid:
		return queries.AuditCountByPlan(ctx, q, db.AuditCountByPlanParams{
			PlanID: s.plan, OccurredFrom: s.from, OccurredBefore: s.before, MaxRows: s.limit,
			SessionID: s.session, UserName: s.user, Actor: s.actor, Project: s.project, Type: s.kind,
		})
	case s.session.Valid:
		return queries.AuditCountBySession(ctx, q, db.AuditCountBySessionParams{
			SessionID: s.session, OccurredFrom: s.from, OccurredBefore: s.before, MaxRows: s.limit,
			UserName: s.user, Actor: s.actor, Project: s.project, Type: s.kind,
		})
	case s.user != "":
		return queries.AuditCountByUser(ctx, q, db.AuditCountByUserParams{
			UserName: s.user, OccurredFrom: s.from, OccurredBefore: s.before, MaxRows: s.limit,
			Actor: s.actor, Project: s.project, Type: s.kind,
		})
	case s.actor != "":
		return queries.AuditCountByActor(ctx, q, db.AuditCountByActorParams{
			Actor: s.actor, OccurredFrom: s.from, OccurredBefore: s.before, MaxRows: s.limit, Project: s.project, Type: s.kind,
		})
	case s.project != "":
		return queries.AuditCountByProject(ctx, q, db.AuditCountByProjectParams{
			Project: s.project, OccurredFrom: s.from, OccurredBefore: s.before, MaxRows: s.limit, Type: s.kind,
		})
	case s.kind != "":
		return queries.AuditCountByType(ctx, q, db.AuditCountByTypeParams{
			Type: s.kind, OccurredFrom: s.from, OccurredBefore: s.before, MaxRows: s.limit,
		})
	default:
		return queries.AuditCount(ctx, q, db.AuditCountParams{
			OccurredFrom: s.from, OccurredBefore: s.before, MaxRows: s.limit,
		})
	}
}
