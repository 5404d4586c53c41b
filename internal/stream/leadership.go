package stream

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxSuperseded Lease UIDs are remembered, so that the leader of a Lease that is gone cannot come back.
const maxSuperseded = 16

// leadership lets one session at a time speak to the backend, that of the newest epoch (D52).
type leadership struct {
	backend Backend

	mu         sync.Mutex
	epoch      Epoch    // newest seen; zero before the first
	superseded []string // UIDs of Leases that another one followed
	current    *tenure
}

// tenure is the time in which one session leads.
type tenure struct {
	leader string
	epoch  Epoch
	ended  chan struct{} // closed when another took over
	cause  error         // set before ended is closed
}

// begin makes a session of epoch the leading one and ends the one before. A session of the same epoch takes over too: it is
// the same leader, whose older connection is lost.
func (l *leadership) begin(leader string, epoch Epoch) (*tenure, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.judge(epoch); err != nil {
		return nil, err
	}
	if l.epoch.LeaseUID != "" && l.epoch.LeaseUID != epoch.LeaseUID {
		l.superseded = append(l.superseded, l.epoch.LeaseUID)
		l.superseded = l.superseded[max(0, len(l.superseded)-maxSuperseded):]
	}
	if l.current != nil {
		l.current.cause = status.Errorf(codes.Aborted, "leader %s opened a newer session, with transitions %d of lease %s", leader, epoch.Transitions, epoch.LeaseUID)
		close(l.current.ended)
	}
	l.epoch = epoch
	l.current = &tenure{leader: leader, epoch: epoch, ended: make(chan struct{})}
	l.backend.SessionStarted(leader)
	return l.current, nil
}

// judge refuses a leader that has been followed by another.
func (l *leadership) judge(epoch Epoch) error {
	switch {
	case epoch.LeaseUID == l.epoch.LeaseUID && epoch.Transitions < l.epoch.Transitions:
		return status.Errorf(codes.FailedPrecondition, "transitions %d of lease %s are older than %d, already seen: another leader followed",
			epoch.Transitions, epoch.LeaseUID, l.epoch.Transitions)
	case slices.Contains(l.superseded, epoch.LeaseUID):
		return status.Errorf(codes.FailedPrecondition, "lease %s was followed by lease %s: another leader followed", epoch.LeaseUID, l.epoch.LeaseUID)
	}
	return nil
}

// apply hands a over while t leads; afterwards it does nothing.
func (l *leadership) apply(t *tenure, a Assign) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == t {
		l.backend.Apply(a)
	}
}

// end tells the backend that there is no leader, unless another took over.
func (l *leadership) end(t *tenure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == t {
		l.current = nil
		l.backend.SessionEnded()
	}
}
