package fence

import (
	"fmt"
	"regexp"
	"strconv"
)

// Epoch identifies a leadership: the Lease and its leaseTransitions (D52).
type Epoch struct {
	LeaseUID    string
	Transitions int64
}

// epochUIDLength is how much of the Lease's UID a decision carries.
const epochUIDLength = 8

// String is the epoch as decisions carry it: the first 8 characters of the Lease's UID, a dash, the transitions.
func (e Epoch) String() string {
	return e.LeaseUID[:min(epochUIDLength, len(e.LeaseUID))] + "-" + strconv.FormatInt(e.Transitions, 10)
}

// CommitKind is the last part of a decision ID.
type CommitKind string

// The kinds of commit (D52).
const (
	CommitUp       CommitKind = "up"
	CommitDown     CommitKind = "down"
	CommitRollback CommitKind = "rollback"
	CommitRestore  CommitKind = "restore"
	CommitDonate   CommitKind = "donate"
	CommitAcquire  CommitKind = "acquire"
)

// Grows says whether the kind raises counts; the others lower them (D26).
func (k CommitKind) Grows() bool {
	return k == CommitUp || k == CommitRestore || k == CommitAcquire
}

// DecisionID is the parsed form of a decision's identity: "<lease uid, first 8 characters>-<transitions>.<sequence>.<kind>".
type DecisionID struct {
	Epoch    string // as Epoch.String writes it
	Sequence int64  // from 1; grows with every commit of a scaler
	Kind     CommitKind
}

var decisionIDPattern = regexp.MustCompile(
	`^([-A-Za-z0-9]{1,8}-(?:0|[1-9][0-9]{0,18}))\.([1-9][0-9]{0,18})\.(up|down|rollback|restore|donate|acquire)$`)

// String is the identity as annotations and status carry it.
func (d DecisionID) String() string {
	return fmt.Sprintf("%s.%d.%s", d.Epoch, d.Sequence, d.Kind)
}

// ParseDecisionID reads an identity; only the spelling that String writes is accepted.
func ParseDecisionID(s string) (DecisionID, error) {
	parts := decisionIDPattern.FindStringSubmatch(s)
	if parts == nil {
		return DecisionID{}, fmt.Errorf("decisionID %.80q is not <epoch>.<sequence>.<kind>", s)
	}
	sequence, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return DecisionID{}, fmt.Errorf("decisionID %.80q has a sequence out of range", s)
	}
	return DecisionID{Epoch: parts[1], Sequence: sequence, Kind: CommitKind(parts[3])}, nil
}
