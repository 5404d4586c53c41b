package stream

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// maxPart is the size in bytes up to which a part of an assignment is filled. A larger role comes alone. What is left up to
// the size of a message is room for the framing of many small roles.
const maxPart = MaxMessage / 2

// owned is what one shard is to own, and when the ages in it were true.
type owned struct {
	roles []observe.Assignment
	at    time.Time
}

// difference says what turns sent into want.
func difference(sent, want []observe.Assignment) (upserts []observe.Assignment, removals []observe.RoleKey) {
	unwanted := make(map[observe.RoleKey]int, len(sent))
	for i := range sent {
		unwanted[sent[i].Key] = i
	}
	for i := range want {
		before, found := unwanted[want[i].Key]
		if !found || !sameAssignment(&sent[before], &want[i]) {
			upserts = append(upserts, want[i])
		}
		delete(unwanted, want[i].Key)
	}
	return upserts, slices.Collect(maps.Keys(unwanted))
}

// sameAssignment ignores LastScrapeAge: it counts when a role arrives, and the shard that has the role knows better.
func sameAssignment(a, b *observe.Assignment) bool {
	return a.Kind == b.Kind && a.Engine == b.Engine && a.Interval == b.Interval && a.ReadyReplicas == b.ReadyReplicas &&
		slices.Equal(a.Pods, b.Pods)
}

// parts writes an assignment for the wire, in as many messages as its size needs: at least one. A role that is too large for
// a message of its own is removed instead, and named.
func parts(a Assign) (list []*observationv1.Assign, tooLarge []observe.RoleKey) {
	part, size := &observationv1.Assign{}, 0
	list = append(list, part)
	room := func(n int) {
		if size += n; size > maxPart && size > n {
			part, size = &observationv1.Assign{}, n
			list = append(list, part)
		}
	}
	removals := a.Removals
	for _, u := range a.Upserts {
		p := encodeAssignment(u)
		n := proto.Size(p)
		if n > MaxMessage-maxPart/2 {
			tooLarge, removals = append(tooLarge, u.Key), append(removals, u.Key)
			continue
		}
		room(n)
		part.Upserts = append(part.Upserts, p)
	}
	for _, k := range removals {
		p := encodeKey(k)
		room(proto.Size(p))
		part.Removals = append(part.Removals, p)
	}
	for i, p := range list {
		p.Revision, p.Full, p.More = a.Revision, a.Full, i < len(list)-1
	}
	return list, tooLarge
}
