package kube

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Reasons of events. Conditions bring their own: a condition that turned bad is a Warning with the condition's reason.
const (
	EventBound       = "Bound"       // the scaler owns the target's counts now
	EventReleased    = "Released"    // it no longer does
	EventScaledUp    = "ScaledUp"    // growth was committed
	EventScaledDown  = "ScaledDown"  // shrinking was committed
	EventRolledBack  = "RolledBack"  // growth that was not admitted was taken back
	EventRestored    = "Restored"    // an aborted removal was taken back
	EventDonated     = "Donated"     // a role gave a replica to another
	EventAcquired    = "Acquired"    // a role took the replica that another gave
	EventWriteDenied = "WriteDenied" // the scaler's own write was refused
	EventWriteFailed = "WriteFailed" // a write did not get through and is tried again
)

// Actions of events: what the scaler was doing.
const (
	ActionBind   = "Bind"
	ActionCommit = "Commit"
	ActionPlan   = "Plan"
)

const (
	// maxNote is the API's limit on an event's text.
	maxNote = 1024
	// eventBurst and eventEvery bound the events of one scaler.
	eventBurst = 10
	eventEvery = 10 * time.Second
)

// Event is one thing to tell people.
type Event struct {
	Warning              bool
	Reason, Action, Note string
}

// Events tells people on the scaler and on its target what was done. It never blocks and drops what comes too fast.
type Events struct {
	recorder events.EventRecorder
	version  string

	mu       sync.Mutex
	limiters map[types.NamespacedName]*rate.Limiter // by scaler
}

// NewEvents starts telling; ctx ends it.
func NewEvents(ctx context.Context, client *Client) (*Events, error) {
	b := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.Core.EventsV1()})
	if err := b.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("starting the event recorder: %w", err)
	}
	context.AfterFunc(ctx, b.Shutdown)
	return &Events{
		recorder: b.NewRecorder(runtime.NewScheme(), FieldManager),
		version:  client.Version,
		limiters: make(map[types.NamespacedName]*rate.Limiter),
	}, nil
}

// Tell records an event on the scaler and, when there is one, on the target.
func (e *Events) Tell(scaler types.NamespacedName, uid types.UID, d *target.Deployment, event Event) {
	if !e.limiter(scaler).Allow() {
		return
	}
	kind, note := corev1.EventTypeNormal, clip(event.Note)
	if event.Warning {
		kind = corev1.EventTypeWarning
	}
	about := e.reference(workerv1.Kind, scaler.Namespace, scaler.Name, uid)
	if d == nil {
		e.recorder.Eventf(about, nil, kind, event.Reason, event.Action, "%s", note)
		return
	}
	on := e.reference(target.Kind, d.Namespace, d.Name, types.UID(d.UID))
	if event.Action == ActionCommit {
		// Events that differ in their text alone become one series with the first one's text; each commit has its own why.
		on.ResourceVersion = d.ResourceVersion
	}
	e.recorder.Eventf(about, on, kind, event.Reason, event.Action, "%s", note)
	e.recorder.Eventf(on, about, kind, event.Reason, event.Action, "%s", note)
}

// Forget drops what is kept for a scaler.
func (e *Events) Forget(scaler types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.limiters, scaler)
}

func (e *Events) limiter(scaler types.NamespacedName) *rate.Limiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	limiter := e.limiters[scaler]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(eventEvery), eventBurst)
		e.limiters[scaler] = limiter
	}
	return limiter
}

func (e *Events) reference(kind, namespace, name string, uid types.UID) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: workerv1.GroupName + "/" + e.version, Kind: kind, Namespace: namespace, Name: name, UID: uid,
	}
}

// clip cuts a text at the limit, between characters.
func clip(note string) string {
	if len(note) <= maxNote {
		return note
	}
	end := maxNote
	for !utf8.RuneStart(note[end]) {
		end--
	}
	return note[:end]
}
