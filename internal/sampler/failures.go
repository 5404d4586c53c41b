package sampler

import (
	"time"

	"go.uber.org/zap"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// reportEvery is how often failing scrapes of one role are logged at most.
const reportEvery = time.Minute

// failures turns the failed scrapes of one role into one log line a minute, and one when they are over.
type failures struct {
	log     *zap.Logger
	failing bool
	logged  time.Time
}

func (f *failures) report(o observe.RoleObservation) {
	c := o.Coverage
	failed := c.Selected - c.Answered
	switch {
	case failed > 0 && (!f.failing || o.End.Sub(f.logged) >= reportEvery):
		last := lastFailure(c.Uncovered)
		f.log.Warn("scraping failed", zap.Int("failed", failed), zap.Int("of", c.Selected),
			zap.String("lastPod", last.Name), zap.String("lastReason", string(last.Reason)), zap.String("last", last.Message))
		f.failing, f.logged = true, o.End
	case failed == 0 && f.failing && c.Selected > 0:
		f.log.Info("scraping recovered", zap.Int("of", c.Selected))
		f.failing = false
	}
}

// lastFailure is the last Pod that did not answer.
func lastFailure(uncovered []observe.UncoveredPod) (last observe.UncoveredPod) {
	for _, u := range uncovered {
		switch u.Reason {
		case observe.NoBaseline, observe.Reset, observe.OverCap:
		default:
			last = u
		}
	}
	return last
}
