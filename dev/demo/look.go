package main

import (
	"context"
	"time"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/harness"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// moment is one row of the table. What the scaler saw and wants is its status, as kubectl shows it.
type moment struct {
	rate             float64 // requests per second that are sent
	inFlight         uint64  // requests that are not finished
	current          int32   // replicas of the deployment
	ready            int     // replicas that serve
	there            bool    // the engines of replicas that were removed are gone, too
	raw, constrained int32
	reason           string
	decision         string
}

func look(ctx context.Context, system *harness.Cluster, at time.Duration) (moment, error) {
	target, err := system.Target(ctx, namespace, name)
	if err != nil {
		return moment{}, err
	}
	scaler, err := system.Scaler(ctx, namespace, name)
	if err != nil {
		return moment{}, err
	}
	now := moment{
		rate:     script.Rate(at.Seconds()),
		inFlight: system.Fleet.Totals(namespace, name).InFlight,
		current:  target.Roles[0].Replicas,
		decision: decision(scaler.Status.LastCommit),
	}
	instances := system.Fleet.Instances(namespace, name)
	for _, i := range instances {
		if i.State == sim.Ready {
			now.ready++
		}
	}
	now.there = len(instances) == int(now.current)
	for _, r := range scaler.Status.Roles {
		now.raw, now.constrained, now.reason = r.RawRecommendedReplicas, r.ConstrainedReplicas, r.Reason
	}
	return now, nil
}

// settled: one replica, and no other engine is left.
func (m moment) settled() bool { return m.current == 1 && m.ready == 1 && m.there }

// decision is the number and kind of the last commit.
func decision(c *workerv1.CommitStatus) string {
	if c == nil {
		return "-"
	}
	id, err := fence.ParseDecisionID(c.DecisionID)
	if err != nil {
		return c.DecisionID
	}
	return c.Timestamp.Format("15:04:05") + " " + string(id.Kind)
}
