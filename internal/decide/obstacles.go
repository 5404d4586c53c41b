package decide

import (
	"fmt"
	"strings"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// obstacle is a reason of the condition Blocked, with a sentence; without a reason it does not hold.
type obstacle struct {
	reason, message string
}

// obstacles are what can hold a recommendation back, in the order in which they are reported (D63).
var obstacles = []func(*pass) obstacle{
	conflicting,       // the policy excludes the current vector, or the search for a legal one ended undecided
	scaleDownAborted,  // a removal is being undone, or its cooldown runs
	rebalanceStands,   // nobody can give a refused role its capacity
	resourceExhausted, // a role wants to grow that was refused not long ago
	pacingBounded,     // a window, step or guard changed a count
}

func (p *pass) blockedBy() {
	for _, check := range obstacles {
		if o := check(p); o.reason != "" {
			p.condition(workerv1.ConditionBlocked, true, o.reason, o.message)
			return
		}
	}
	p.condition(workerv1.ConditionBlocked, false, workerv1.ReasonReady, "nothing holds the recommendation back")
}

func conflicting(p *pass) obstacle {
	if p.conflict != nil {
		return obstacle{p.conflict.reason, p.conflict.message}
	}
	if len(p.undecided) > 0 {
		return obstacle{workerv1.ReasonRatioConflict,
			fmt.Sprintf("no legal vector was found in time for roles %s: they hold", strings.Join(p.undecided, ", "))}
	}
	return obstacle{}
}

func scaleDownAborted(p *pass) obstacle {
	switch {
	case p.recovery.reason == workerv1.ReasonScaleDownAborted && p.recovery.stuck != "":
		return obstacle{workerv1.ReasonScaleDownAborted, p.recovery.stuck}
	case p.recovery.reason == workerv1.ReasonScaleDownAborted:
		return obstacle{workerv1.ReasonScaleDownAborted, "a removal was aborted: its replicas come back"}
	case cooldownRuns(p, nil):
		return obstacle{workerv1.ReasonScaleDownAborted,
			fmt.Sprintf("a removal of role %s was aborted: nothing shrinks before the cooldown ends", p.state.LastScaleDown.Role)}
	}
	return obstacle{}
}

func rebalanceStands(p *pass) obstacle {
	if p.recovery.commit != nil && p.recovery.commit.Kind == fence.CommitRollback &&
		p.state.Rebalance != nil && p.state.Rebalance.Reason == StepReceiverAcquire {
		return obstacle{workerv1.ReasonRebalanceBlocked, "the transferred replica was not admitted in time and is taken back"}
	}
	return p.standstill
}

func resourceExhausted(p *pass) obstacle {
	if p.recovery.reason == workerv1.ReasonResourceExhausted {
		message := "a growth was not admitted in time and is taken back"
		if p.recovery.stuck != "" {
			message = p.recovery.stuck
		}
		return obstacle{workerv1.ReasonResourceExhausted, message}
	}
	for _, r := range p.roles {
		if r.raw > r.Replicas && p.blocked(r) {
			return obstacle{workerv1.ReasonResourceExhausted,
				fmt.Sprintf("role %s was refused room not long ago: its growth is tried again later", r.Name)}
		}
	}
	return obstacle{}
}

func pacingBounded(p *pass) obstacle {
	for _, r := range p.roles {
		if r.paced && r.count != r.raw {
			return obstacle{workerv1.ReasonPacingBounded, fmt.Sprintf("role %s is held back by %s", r.Name, r.first)}
		}
	}
	return obstacle{}
}
