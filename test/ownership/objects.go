package ownership

import (
	"fmt"
	"strings"
)

// Names are what differs between worlds: names and identities that a server gives.
type Names struct {
	Scaler string // the scaler of this deployment, living or gone
	UID    string // of that scaler, where it lives
	Epoch  string // of the decider that leads, as decisions carry it
}

// Role and its count; 0 leaves it out.
type Role struct {
	Name     string
	Replicas int
}

// Object is a deployment as far as somebody may own it. A nil annotation is absent.
type Object struct {
	Roles             []Role
	Binding, Decision *string
}

const (
	goneUID = "00000000-0000-4000-8000-000000000000"
	garbage = `{"scalerName":"s1"`
)

// Old is the deployment before the write.
func (c Case) Old(n Names) Object {
	o := Object{Roles: []Role{{"prefill", 2}, {"decode", 2}}}
	last := decision(n.Epoch, 7, "up", 3, o.Roles)
	if c.State != Unbound && c.State != Fresh {
		o.Decision = &last
	}
	switch c.State {
	case Fresh, Bound:
		o.Binding = new(binding(n.Scaler, n.UID, 3))
	case Rebound:
		o.Binding = new(binding(n.Scaler, n.UID, 4))
	case Orphaned, Replaced:
		o.Binding = new(binding(n.Scaler, goneUID, 3))
	case Unreadable:
		o.Binding = new(strings.TrimSuffix(binding(n.Scaler, n.UID, 3), "}") + `,"since":"today"}`)
	case Emptied:
		o.Binding = new("")
	case Unbound, Leftover:
	}
	return o
}

// New is the deployment as the write would leave it.
func (c Case) New(n Names) Object {
	o := c.Old(n)
	o.Roles = c.roles()
	c.bind(&o, n)
	c.decide(&o, n)
	return o
}

func (c Case) roles() []Role {
	switch c.Counts {
	case Grow:
		return []Role{{"prefill", 3}, {"decode", 2}}
	case Shrink:
		return []Role{{"prefill", 2}, {"decode", 1}}
	case Both:
		return []Role{{"prefill", 3}, {"decode", 1}}
	case AddRole:
		return []Role{{"prefill", 2}, {"decode", 2}, {"encode", 1}}
	case DropRole:
		return []Role{{"prefill", 2}}
	case RenameRole:
		return []Role{{"prefill", 2}, {"decoder", 2}}
	case OmitCount:
		return []Role{{"prefill", 2}, {"decode", 0}}
	case Reorder:
		return []Role{{"decode", 2}, {"prefill", 2}}
	case SameCounts:
	}
	return []Role{{"prefill", 2}, {"decode", 2}}
}

func (c Case) bind(o *Object, n Names) {
	switch c.Binding {
	case RemoveBinding:
		o.Binding = nil
	case NextTerm:
		o.Binding = new(binding(n.Scaler, n.UID, 4))
	case LowerTerm:
		o.Binding = new(binding(n.Scaler, n.UID, 2))
	case RecordedTerm:
		o.Binding = new(binding(n.Scaler, n.UID, 3))
	case OtherSpelling:
		o.Binding = new(fmt.Sprintf(`{"term": 3, "scalerUID": %q, "scalerName": %q}`, n.UID, n.Scaler))
	case ForeignBinding:
		o.Binding = new(binding("stranger", goneUID, 9))
	case GarbageBinding:
		o.Binding = new(garbage)
	case EmptyBinding:
		o.Binding = new("")
	case SameBinding:
	}
}

func (c Case) decide(o *Object, n Names) {
	epoch, sequence, kind, term, vector := n.Epoch, 8, c.kind(), c.termAfter(), defaulted(o.Roles)
	switch c.Decision {
	case SameDecision:
		return
	case RemoveDecision:
		o.Decision = nil
		return
	case EmptyDecision:
		o.Decision = new("")
		return
	case GarbageDecision:
		o.Decision = new(`{"decisionID":`)
		return
	case StaleEpoch:
		epoch = "0badcafe-1"
	case SameSequence:
		sequence = 7
	case LowerSequence:
		sequence = 6
	case OtherTerm:
		term += 5
	case OtherVector:
		vector = []Role{{"prefill", 7}, {"decode", 7}}
	case OtherKind:
		kind = map[string]string{"up": "down", "down": "up"}[kind]
	case Commit, UnknownField:
	}
	o.Decision = new(decision(epoch, sequence, kind, term, vector))
	if c.Decision == UnknownField {
		*o.Decision = strings.TrimSuffix(*o.Decision, "}") + `,"why":"load"}`
	}
}

// kind of commit that the change of counts would be; that of a change into both directions, or none, is as good as any.
func (c Case) kind() string {
	if c.Counts == Shrink || c.Counts == OmitCount {
		return "down"
	}
	return "up"
}

// termAfter is the term of the binding that stands after the write; 3 where none can be read.
func (c Case) termAfter() int {
	switch c.Binding {
	case NextTerm:
		return 4
	case LowerTerm:
		return 2
	case ForeignBinding:
		return 9
	case SameBinding:
		if c.State == Rebound {
			return 4
		}
	case RemoveBinding, GarbageBinding, RecordedTerm, OtherSpelling, EmptyBinding:
	}
	return 3
}

// defaulted fills in the counts that are left out, as the API server does.
func defaulted(roles []Role) []Role {
	filled := make([]Role, len(roles))
	for i, r := range roles {
		filled[i] = Role{r.Name, max(r.Replicas, 1)}
	}
	return filled
}

func binding(scaler, uid string, term int) string {
	return fmt.Sprintf(`{"scalerName":%q,"scalerUID":%q,"term":%d}`, scaler, uid, term)
}

func decision(epoch string, sequence int, kind string, term int, vector []Role) string {
	var roles []string
	for _, r := range vector {
		roles = append(roles, fmt.Sprintf(`%q:%d`, r.Name, r.Replicas))
	}
	return fmt.Sprintf(`{"decisionID":"%s.%d.%s","term":%d,"vector":{%s}}`, epoch, sequence, kind, term, strings.Join(roles, ","))
}
