package main

import (
	"context"
	"fmt"
	"slices"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/harness"
)

// summary tells every write of the scaler with its why, as its events do, and what it cost the clients.
func summary(ctx context.Context, s *screen, system *harness.Cluster, h history) error {
	list, err := system.Kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "regarding.kind=" + workerv1.Kind})
	if err != nil {
		return fmt.Errorf("reading the scaler's events: %w", err)
	}
	s.title("What the scaler did, by its events")
	for _, e := range inOrder(list.Items) {
		s.line("  %s  %-16s  %s", e.EventTime.Format("15:04:05"), e.Reason, e.Note)
	}
	totals := system.Fleet.Totals(namespace, name)
	s.title(fmt.Sprintf("The deployment grew from 1 to %d replicas and is at %d. Of %d requests, %d were answered, %d are under way and %d were lost",
		h.most, h.last, totals.Arrived, totals.Finished, totals.InFlight, totals.Lost))
	return nil
}

func inOrder(events []eventsv1.Event) []eventsv1.Event {
	slices.SortStableFunc(events, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return events
}
