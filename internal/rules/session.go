package rules

import (
	"cmp"
	"encoding/json"
	"math"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeSession checks the session and returns it as it is stored: with an id,
// a namespace, a mode and metadata.
func NormalizeSession(view string, s repo.NewSession) (repo.NewSession, error) {
	err := MadeInView(view, "namespace", &s.Namespace)
	s.Namespace = cmp.Or(s.Namespace, repo.DefaultNamespace)
	s.Existing = cmp.Or(s.Existing, repo.ExistingSame)
	err = cmp.Or(
		err,
		checkNames(name{"namespace", s.Namespace}, name{"actor", s.Actor}, name{"automation_profile", s.AutomationProfile}),
		checkText("key", s.Key, repo.MaxKeyBytes),
		checkText("owner", s.Owner, limits.MaxUserIDBytes),
		invalidIf(s.Existing != repo.ExistingSame && s.Existing != repo.ExistingNone && s.Existing != repo.ExistingAny,
			"existing", "is not same, none or any"),
		normalizeObject("metadata", &s.Metadata),
		checkBudget(s.Budget),
	)
	if err != nil {
		return repo.NewSession{}, err
	}
	if s.ID.IsZero() {
		s.ID = repo.NewID()
	}
	s.Budget = ClonePointer(s.Budget)
	return s, nil
}

// NormalizeKey checks a key and returns it with its namespace. Errors: InvalidError; NotFoundError for one in another
// namespace than the view's.
func NormalizeKey(view string, key repo.SessionKey) (repo.SessionKey, error) {
	key.Namespace = cmp.Or(key.Namespace, view, repo.DefaultNamespace)
	err := cmp.Or(
		checkNames(name{"namespace", key.Namespace}),
		checkText("key", key.Key, repo.MaxKeyBytes),
		invalidIf(key.Key == "", "key", "is empty"),
	)
	if err == nil && !IsInView(view, key.Namespace) {
		err = &repo.NotFoundError{Kind: "session", Name: key.Key, Namespace: key.Namespace}
	}
	return key, err
}

// keyOf returns the key of the session to create in a view.
func keyOf(view string, s repo.NewSession) repo.SessionKey {
	return repo.SessionKey{Namespace: cmp.Or(s.Namespace, view, repo.DefaultNamespace), Key: s.Key}
}

func checkBudget(budget *repo.Cost) error {
	return invalidIf(budget != nil && *budget < 0, "budget", "is negative")
}

// StoredSession returns the session that the normalized s becomes.
func StoredSession(s repo.NewSession, createdAt, updatedAt time.Time) repo.Session {
	return repo.Session{
		ID:                s.ID,
		Namespace:         s.Namespace,
		Key:               s.Key,
		Owner:             s.Owner,
		Actor:             s.Actor,
		AutomationProfile: s.AutomationProfile,
		Metadata:          s.Metadata,
		Budget:            s.Budget,
		FencedOnly:        s.FencedOnly,
		Version:           1,
		CreatedAt:         createdAt,
		UpdatedAt:         updatedAt,
	}
}

// FoundSession returns the result of creating the normalized s if sessions with its id or
// its key are stored: one of them if s accepts it. chosen: the caller chose the id.
// Otherwise it is known only here, and a session that has it was created by an earlier
// attempt. Errors: ExistsError.
func FoundSession(view string, s repo.NewSession, chosen bool, stored ...repo.Session) (repo.Session, error) {
	found := stored[0]
	for _, other := range stored[1:] {
		// In case of doubt, the id says which session it should be, but any one is
		// accepted that has the key.
		if hasKey := s.Key != "" && keyOf(view, s) == keyOfStored(other); hasKey == (s.Existing == repo.ExistingAny) {
			found = other
		}
	}
	if !chosen && found.ID == s.ID {
		return found, nil
	}
	var err error
	switch s.Existing {
	case repo.ExistingNone:
		err = &repo.ExistsError{Kind: "session", ID: found.ID}
	case repo.ExistingAny:
		if s.Key != "" { // which must lead to its session, and to no other
			err = conflict(repo.ExistsError{Kind: "session", ID: found.ID}, keyDifferences(s, found)...)
		}
	default:
		err = sessionDifference(s, chosen, found)
	}
	if err == nil && !IsInView(view, found.Namespace) {
		err = InOtherNamespace(found.ID)
	}
	if err != nil {
		return repo.Session{}, err
	}
	found.Existed = true
	return found, nil
}

// SessionDeleted returns the error of creating a session with an id that one had which was
// deleted.
func SessionDeleted(id repo.ID) error {
	return &repo.ExistsError{Kind: "session", ID: id, Gone: true}
}

// KeyTaken returns the error of creating a session with a key that another one has.
func KeyTaken(by repo.ID) error { return &repo.ExistsError{Kind: "session", ID: by, Field: "id"} }

// sessionDifference returns an error that says how the stored session differs from
// the one that the normalized s would create, or nil.
func sessionDifference(s repo.NewSession, chosen bool, stored repo.Session) error {
	return conflict(repo.ExistsError{Kind: "session", ID: stored.ID}, append(keyDifferences(s, stored),
		difference{"id", chosen && s.ID != stored.ID},
		difference{"owner", s.Owner != stored.Owner},
		difference{"actor", s.Actor != stored.Actor},
		difference{"automation_profile", s.AutomationProfile != stored.AutomationProfile},
		difference{"metadata", !jsonvalue.Equal(s.Metadata, stored.Metadata)},
		difference{"budget", !samePointer(s.Budget, stored.Budget)},
		difference{"fenced_only", s.FencedOnly != stored.FencedOnly},
	)...)
}

func keyOfStored(s repo.Session) repo.SessionKey {
	return repo.SessionKey{Namespace: s.Namespace, Key: s.Key}
}

func keyDifferences(s repo.NewSession, stored repo.Session) []difference {
	return []difference{{"namespace", s.Namespace != stored.Namespace}, {"key", s.Key != stored.Key}}
}

// CheckSessionUpdate checks the update.
func CheckSessionUpdate(u repo.SessionUpdate) error {
	both := u.Metadata != nil && u.MetadataPatch != nil
	return cmp.Or(
		checkOptionalName("actor", u.Actor),
		checkOptionalName("automation_profile", u.AutomationProfile),
		normalizeObject("metadata", &u.Metadata), // of the copy; the caller's is stored
		normalizeObject("metadata_patch", &u.MetadataPatch),
		invalidIf(both, "metadata_patch", "is set together with metadata"),
		invalidIf(u.IfVersion != nil && *u.IfVersion < 1, "if_version", "is below 1"),
		invalidIf(u.Budget != nil && u.RemoveBudget, "budget", "is set and removed in one update"),
		checkBudget(u.Budget),
	)
}

// SessionVersion returns an error if the session is not at the version that the update
// expects.
func SessionVersion(u repo.SessionUpdate, id repo.ID, version int64) error {
	return versionConflict(u.IfVersion, repo.VersionConflictError{Kind: "session", ID: id, Actual: version})
}

// PatchMetadata returns the stored metadata as a checked patch changes it. (It is not
// nested deeper than the deeper of the two.) Errors: InvalidError if it is too large.
func PatchMetadata(stored, patch json.RawMessage) (json.RawMessage, error) {
	merged, err := jsonvalue.Merge(nil, stored, patch)
	switch {
	case err != nil:
		return nil, invalid("metadata_patch", "cannot be applied: the stored metadata %s", err)
	case len(merged) > repo.MaxMetadataBytes:
		return nil, invalid("metadata_patch", "would make metadata of %d bytes, more than %d", len(merged),
			repo.MaxMetadataBytes)
	}
	return merged, nil
}

// CheckUsage checks that no value in u is negative.
func CheckUsage(u repo.Usage) error {
	return cmp.Or(
		invalidIf(u.InputTokens < 0, "input_tokens", "is negative"),
		invalidIf(u.OutputTokens < 0, "output_tokens", "is negative"),
		invalidIf(u.Cost < 0, "cost", "is negative"),
	)
}

// normalizeUsage checks the usage and returns it as it is stored: with an id.
func normalizeUsage(u repo.NewUsage) (repo.NewUsage, error) {
	if u.ID.IsZero() {
		u.ID = repo.NewID()
	}
	return u, CheckUsage(repo.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Cost: u.Cost})
}

// AddUsage returns the sum of the two. Errors: InvalidError if it cannot be stored.
func AddUsage(total repo.Usage, add repo.NewUsage) (repo.Usage, error) {
	if add.InputTokens > math.MaxInt64-total.InputTokens || add.OutputTokens > math.MaxInt64-total.OutputTokens ||
		add.Cost > math.MaxInt64-total.Cost {
		return repo.Usage{}, invalid("usage", "would pass 2^63-1 in total")
	}
	total.InputTokens += add.InputTokens
	total.OutputTokens += add.OutputTokens
	total.Cost += add.Cost
	return total, nil
}

// usageConflict returns an error that says how the usage stored under the same id
// differs, or nil.
func usageConflict(u repo.NewUsage, sessionID repo.ID, stored repo.Usage) error {
	return conflict(repo.ExistsError{Kind: "usage", SessionID: sessionID, ID: u.ID},
		difference{"input_tokens", u.InputTokens != stored.InputTokens},
		difference{"output_tokens", u.OutputTokens != stored.OutputTokens},
		difference{"cost", u.Cost != stored.Cost},
	)
}

// ImportTaken returns the error of an import of a session if one with its id, or its key, is
// stored.
func ImportTaken(session repo.Session, stored repo.ID) error {
	if stored == session.ID {
		return &repo.ImportError{Field: "session.id", Reason: "is taken", Err: &repo.ExistsError{Kind: "session", ID: stored}}
	}
	return &repo.ImportError{Field: "session.key", Reason: "is taken", Err: KeyTaken(stored)}
}

// ImportDeleted returns the error of an import that does not restore, of a session that was
// deleted.
func ImportDeleted(id repo.ID) error {
	return &repo.ImportError{Field: "session.id", Reason: "belongs to a deleted session", Err: SessionDeleted(id)}
}

// MessageTwice returns the error of an import with two messages of one id.
func MessageTwice() error {
	return &repo.ImportError{Field: "messages", Reason: "contain an id twice"}
}

// MissingPlan returns the error of an import whose i-th linked plan does not exist.
func MissingPlan(i int, id repo.ID) error {
	return &repo.ImportError{
		Field:  at("linked_plan_ids", i),
		Reason: "does not exist here",
		Err:    &repo.NotFoundError{Kind: "plan", ID: id},
	}
}
