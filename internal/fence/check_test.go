package fence

import (
	"errors"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cast: s1 (uid u1) owns the deployment under term 3, and the Lease is in its second leadership.
const (
	bound3    = `{"scalerName":"s1","scalerUID":"u1","term":3}`
	bound4    = `{"scalerName":"s1","scalerUID":"u1","term":4}`
	bound2    = `{"scalerName":"s1","scalerUID":"u1","term":2}`
	others    = `{"scalerName":"s2","scalerUID":"u2","term":4}`
	reordered = `{"scalerUID":"u1","scalerName":"s1","term":3}`
	garbage   = `{"scalerName":"s1"`
	latest    = `{"decisionID":"lease-1.7.up","term":3,"vector":{"decode":2,"prefill":2}}`
)

var lease = Epoch{LeaseUID: "lease", Transitions: 2}

// counts of prefill and decode.
func counts(prefill, decode int32) map[string]int32 {
	return map[string]int32{"prefill": prefill, "decode": decode}
}

// decision that sets counts, under a term and an identity.
func decision(id string, term int64, vector map[string]int32) string {
	return Decision{DecisionID: id, Term: term, Vector: vector}.String()
}

// notes are annotations; "-" stands for an absent one.
func notes(binding, decision string) map[string]string {
	m := map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	if binding != "-" {
		m[BindingAnnotation] = binding
	}
	if decision != "-" {
		m[DecisionAnnotation] = decision
	}
	return m
}

func object(counts map[string]int32, binding, decision string) Object {
	return Object{UID: "d1", Counts: counts, Annotations: notes(binding, decision)}
}

// facts of a world where s1 lives as uid, or not at all when uid is empty.
func facts(uid string) Facts {
	return Facts{
		Scaler: func(name string) (*Scaler, error) {
			if name != "s1" || uid == "" {
				return nil, nil
			}
			return &Scaler{UID: uid, TargetUID: "d1", Term: 3}, nil
		},
		Epoch: func() (Epoch, error) { return lease, nil },
	}
}

// unasked are facts of writes that must not cost a live read.
func unasked(t *testing.T) Facts {
	return Facts{
		Scaler: func(string) (*Scaler, error) { t.Error("a live read of the scaler was not needed"); return nil, nil },
		Epoch:  func() (Epoch, error) { t.Error("a live read of the lease was not needed"); return Epoch{}, nil },
	}
}

func unreachable() Facts {
	down := errors.New("connection refused")
	return Facts{
		Scaler: func(string) (*Scaler, error) { return nil, down },
		Epoch:  func() (Epoch, error) { return Epoch{}, down },
	}
}

// row is one line of the table: want is empty for an allowed write.
type row struct {
	old, new Object
	facts    *Facts // nil: none may be asked
	want     Reason
}

func judge(t *testing.T, rows map[string]row, decider bool) {
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			request := Request{Namespace: "ns", Name: "m1", Decider: decider, Old: &r.old, New: r.new, Facts: unasked(t)}
			if r.facts != nil {
				request.Facts = *r.facts
			}
			requireReason(t, r.want, Check(request))
		})
	}
}

func requireReason(t *testing.T, want Reason, refusal *Refusal) {
	t.Helper()
	if want == "" {
		require.Nil(t, refusal)
		return
	}
	require.NotNil(t, refusal)
	require.Equal(t, want, refusal.Reason, refusal.Message)
	require.Contains(t, refusal.Message, "ModelDeployment ns/m1: ")
	code := map[bool]int32{true: 503, false: 403}[want == FactsNotAvailable]
	require.Equal(t, code, refusal.Code)
}

func TestCreation(t *testing.T) {
	for name, test := range map[string]struct {
		notes map[string]string
		want  Reason
	}{
		"without annotations":          {notes("-", "-"), ""},
		"without any annotation":       {nil, ""},
		"with a binding":               {notes(bound3, "-"), CreatedWithOwner},
		"with an empty binding":        {notes("", "-"), CreatedWithOwner},
		"with an unreadable binding":   {notes(garbage, "-"), CreatedWithOwner},
		"with a decision":              {notes("-", latest), CreatedWithOwner},
		"with both, from a backup say": {notes(bound3, latest), CreatedWithOwner},
	} {
		for actor, decider := range map[string]bool{"by a user": false, "by the decider": true} {
			t.Run(name+" "+actor, func(t *testing.T) {
				requireReason(t, test.want, Check(Request{Namespace: "ns", Name: "m1", Decider: decider,
					New: Object{Counts: counts(1, 1), Annotations: test.notes}, Facts: unasked(t)}))
			})
		}
	}
}

func TestAnybodyOnAnUnboundDeployment(t *testing.T) {
	was := object(counts(2, 2), "-", latest)
	judge(t, map[string]row{
		"changes counts":                              {old: was, new: object(counts(5, 1), "-", latest)},
		"adds a role":                                 {old: was, new: object(map[string]int32{"prefill": 2, "decode": 2, "encode": 1}, "-", latest)},
		"removes a left-over decision":                {old: was, new: object(counts(2, 2), "-", "-")},
		"removes a left-over decision with counts":    {old: was, new: object(counts(3, 3), "-", "-")},
		"installs a binding":                          {old: was, new: object(counts(2, 2), bound3, latest), want: AnnotationOwned},
		"installs an empty binding":                   {old: was, new: object(counts(2, 2), "", latest), want: AnnotationOwned},
		"installs an unreadable binding":              {old: was, new: object(counts(2, 2), garbage, latest), want: AnnotationOwned},
		"rewrites a left-over decision":               {old: was, new: object(counts(2, 2), "-", decision("lease-1.8.up", 3, counts(2, 2))), want: AnnotationOwned},
		"empties a left-over decision":                {old: was, new: object(counts(2, 2), "-", ""), want: AnnotationOwned},
		"installs a decision":                         {old: object(counts(2, 2), "-", "-"), new: was, want: AnnotationOwned},
		"installs an empty decision":                  {old: object(counts(2, 2), "-", "-"), new: object(counts(2, 2), "-", ""), want: AnnotationOwned},
		"removes the decision and installs a binding": {old: was, new: object(counts(2, 2), bound3, "-"), want: AnnotationOwned},
	}, false)
}

func TestAnybodyOnABoundDeployment(t *testing.T) {
	was := object(counts(2, 2), bound3, latest)
	judge(t, map[string]row{
		"changes something else":          {old: was, new: was},
		"grows a role":                    {old: was, new: object(counts(3, 2), bound3, latest), want: CountsOwned},
		"shrinks a role":                  {old: was, new: object(counts(2, 1), bound3, latest), want: CountsOwned},
		"adds a role":                     {old: was, new: object(map[string]int32{"prefill": 2, "decode": 2, "encode": 1}, bound3, latest), want: CountsOwned},
		"drops a role":                    {old: was, new: object(map[string]int32{"prefill": 2}, bound3, latest), want: CountsOwned},
		"renames a role":                  {old: was, new: object(map[string]int32{"prefill": 2, "decoder": 2}, bound3, latest), want: CountsOwned},
		"drops all roles":                 {old: was, new: object(nil, bound3, latest), want: CountsOwned},
		"takes the binding over":          {old: was, new: object(counts(2, 2), others, latest), want: AnnotationOwned},
		"raises the term":                 {old: was, new: object(counts(2, 2), bound4, latest), want: AnnotationOwned},
		"reorders the binding's JSON":     {old: was, new: object(counts(2, 2), reordered, latest), want: AnnotationOwned},
		"empties the binding":             {old: was, new: object(counts(2, 2), "", latest), want: AnnotationOwned},
		"breaks the binding":              {old: was, new: object(counts(2, 2), garbage, latest), want: AnnotationOwned},
		"removes the decision":            {old: was, new: object(counts(2, 2), bound3, "-"), want: AnnotationOwned},
		"rewrites the decision":           {old: was, new: object(counts(2, 2), bound3, decision("lease-1.8.up", 3, counts(2, 2))), want: AnnotationOwned},
		"installs the first decision":     {old: object(counts(2, 2), bound3, "-"), new: was, want: AnnotationOwned},
		"commits like the decider would":  {old: was, new: object(counts(3, 2), bound3, decision("lease-2.8.up", 3, counts(3, 2))), want: CountsOwned},
		"removes everything with a PUT":   {old: was, new: Object{UID: "d1", Counts: counts(2, 2)}, facts: new(facts("u1")), want: BindingNotOrphan},
		"removes the binding of s1":       {old: was, new: object(counts(2, 2), "-", latest), facts: new(facts("u1")), want: BindingNotOrphan},
		"removes it and changes counts":   {old: was, new: object(counts(3, 2), "-", latest), want: CountsOwned},
		"removes it, s1 cannot be looked": {old: was, new: object(counts(2, 2), "-", latest), facts: new(unreachable()), want: FactsNotAvailable},
	}, false)
}

func TestOrphanRecovery(t *testing.T) {
	was := object(counts(2, 2), bound3, latest)
	judge(t, map[string]row{
		"the scaler is absent":                          {old: was, new: object(counts(2, 2), "-", latest), facts: new(facts(""))},
		"the scaler has another UID":                    {old: was, new: object(counts(2, 2), "-", latest), facts: new(facts("u9"))},
		"the decision goes with the binding":            {old: was, new: object(counts(2, 2), "-", "-"), facts: new(facts(""))},
		"the decision is rewritten with it":             {old: was, new: object(counts(2, 2), "-", decision("x-1.8.up", 3, counts(2, 2))), facts: new(facts("")), want: AnnotationOwned},
		"the binding is rewritten, not removed":         {old: was, new: object(counts(2, 2), others, latest), want: AnnotationOwned},
		"the binding is emptied, not removed":           {old: was, new: object(counts(2, 2), "", latest), want: AnnotationOwned},
		"counts move with it":                           {old: was, new: object(counts(2, 3), "-", latest), want: CountsOwned},
		"a role is dropped with it":                     {old: was, new: object(map[string]int32{"prefill": 2}, "-", latest), want: CountsOwned},
		"the decision alone goes, the binding is there": {old: was, new: object(counts(2, 2), bound3, "-"), want: AnnotationOwned},
	}, false)
}

func TestAnybodyOnADeploymentWithAnUnreadableBinding(t *testing.T) {
	was := object(counts(2, 2), garbage, latest)
	restored := object(counts(2, 2), bound3, latest)
	elsewhere := Facts{Scaler: func(string) (*Scaler, error) { return &Scaler{UID: "u1", TargetUID: "d9", Term: 3}, nil }}
	judge(t, map[string]row{
		"changes something else":                            {old: was, new: was},
		"removes it":                                        {old: was, new: object(counts(2, 2), "-", latest)},
		"removes it and the decision, with counts":          {old: was, new: object(counts(3, 2), "-", "-")},
		"changes counts of the unclaimed deployment":        {old: was, new: object(counts(3, 2), garbage, latest)},
		"removes the decision":                              {old: was, new: object(counts(2, 2), garbage, "-")},
		"rewrites the decision":                             {old: was, new: object(counts(2, 2), garbage, decision("lease-1.8.up", 3, counts(2, 2))), want: AnnotationOwned},
		"replaces it by other garbage":                      {old: was, new: object(counts(2, 2), "x", latest), want: BindingNotRestore},
		"puts back what the living scaler records":          {old: was, new: restored, facts: new(facts("u1"))},
		"puts it back with other counts":                    {old: was, new: object(counts(3, 2), bound3, latest), facts: new(facts("u1")), want: BindingNotRestore},
		"puts back another term than recorded":              {old: was, new: object(counts(2, 2), bound4, latest), facts: new(facts("u1")), want: BindingNotRestore},
		"installs a binding for a scaler that is not there": {old: was, new: restored, facts: new(facts("")), want: BindingNotRestore},
		"installs a binding for an earlier scaler's UID":    {old: was, new: restored, facts: new(facts("u9")), want: BindingNotRestore},
		"installs a binding for a scaler bound elsewhere":   {old: was, new: restored, facts: &elsewhere, want: BindingNotRestore},
		"installs a binding for a scaler without any":       {old: was, new: object(counts(2, 2), others, latest), facts: new(facts("u1")), want: BindingNotRestore},
		"puts it back while the scaler cannot be looked up": {old: was, new: restored, facts: new(unreachable()), want: FactsNotAvailable},
	}, false)
	judge(t, map[string]row{"an empty value is unreadable, not absent": {
		old: object(counts(2, 2), "", "-"), new: object(counts(2, 2), bound3, "-"), facts: new(facts("u9")), want: BindingNotRestore}}, false)
}

func TestDeciderOnAnUnboundDeployment(t *testing.T) {
	was := object(counts(2, 2), "-", "-")
	left := object(counts(2, 2), "-", latest)
	grown := decision("lease-2.1.up", 4, counts(3, 2))
	judge(t, map[string]row{
		"binds":                                     {old: was, new: object(counts(2, 2), bound3, "-")},
		"binds over a left-over decision":           {old: left, new: object(counts(2, 2), bound4, latest)},
		"binds and commits in one write":            {old: left, new: object(counts(3, 2), bound4, grown), facts: new(facts("u1"))},
		"binds under the left-over decision's term": {old: left, new: object(counts(2, 2), bound3, latest), want: StaleTerm},
		"binds under a lower term":                  {old: left, new: object(counts(2, 2), bound2, latest), want: StaleTerm},
		"binds over an unreadable decision":         {old: object(counts(2, 2), "-", "x"), new: object(counts(2, 2), bound4, "x")},
		"binds and drops the left-over decision":    {old: left, new: object(counts(2, 2), bound4, "-"), want: DecisionMismatch},
		"installs garbage":                          {old: was, new: object(counts(2, 2), garbage, "-"), want: InvalidBinding},
		"installs an empty binding":                 {old: was, new: object(counts(2, 2), "", "-"), want: InvalidBinding},
		"binds and moves counts without a decision": {old: was, new: object(counts(3, 2), bound3, "-"), want: DecisionMismatch},
		"commits without binding":                   {old: was, new: object(counts(3, 2), "-", grown), want: NotBound},
		"moves counts without binding":              {old: was, new: object(counts(3, 2), "-", "-"), want: NotBound},
		"removes a left-over decision":              {old: left, new: was, want: NotBound},
	}, true)
}

func TestDeciderOnABoundDeployment(t *testing.T) {
	was := object(counts(2, 2), bound3, latest)
	commits := func(to map[string]int32, decision string) Object { return object(to, bound3, decision) }
	live := new(facts("u1"))
	judge(t, map[string]row{
		"changes something else":         {old: was, new: was},
		"commits growth":                 {old: was, new: commits(counts(4, 2), decision("lease-2.8.up", 3, counts(4, 2))), facts: live},
		"commits growth of both":         {old: was, new: commits(counts(4, 3), decision("lease-2.8.up", 3, counts(4, 3))), facts: live},
		"commits shrinking":              {old: was, new: commits(counts(1, 2), decision("lease-2.8.down", 3, counts(1, 2))), facts: live},
		"commits the first decision":     {old: object(counts(2, 2), bound3, "-"), new: commits(counts(3, 2), decision("lease-2.1.up", 3, counts(3, 2))), facts: live},
		"commits over a broken decision": {old: object(counts(2, 2), bound3, "x"), new: commits(counts(3, 2), decision("lease-2.1.up", 3, counts(3, 2))), facts: live},
		"commits first under a new term, numbering anew": {old: object(counts(2, 2), bound4, latest),
			new: object(counts(3, 2), bound4, decision("lease-2.1.up", 4, counts(3, 2))), facts: live},
		"releases": {old: was, new: object(counts(2, 2), "-", latest)},

		"releases and drops the decision":            {old: was, new: object(counts(2, 2), "-", "-"), want: InvalidBinding},
		"releases and moves counts":                  {old: was, new: object(counts(3, 2), "-", latest), want: InvalidBinding},
		"releases and commits":                       {old: was, new: object(counts(3, 2), "-", decision("lease-2.8.up", 3, counts(3, 2))), want: InvalidBinding},
		"replaces the binding by another scaler's":   {old: was, new: object(counts(2, 2), others, latest), want: InvalidBinding},
		"raises the term in place":                   {old: was, new: object(counts(2, 2), bound4, latest), want: InvalidBinding},
		"lowers the term in place":                   {old: was, new: object(counts(2, 2), bound2, latest), want: InvalidBinding},
		"breaks the binding":                         {old: was, new: object(counts(2, 2), garbage, latest), want: InvalidBinding},
		"moves counts without a decision":            {old: was, new: commits(counts(3, 2), latest), want: DecisionMismatch},
		"moves counts and drops the decision":        {old: was, new: commits(counts(3, 2), "-"), want: DecisionMismatch},
		"drops the decision":                         {old: was, new: commits(counts(2, 2), "-"), want: DecisionMismatch},
		"writes a decision without moving counts":    {old: was, new: commits(counts(2, 2), decision("lease-2.8.up", 3, counts(2, 2))), want: DecisionMismatch},
		"writes garbage for a decision":              {old: was, new: commits(counts(3, 2), "x"), want: InvalidDecision},
		"decides less than it writes":                {old: was, new: commits(counts(4, 2), decision("lease-2.8.up", 3, counts(3, 2))), want: DecisionMismatch},
		"decides for a part of the roles":            {old: was, new: commits(counts(3, 2), decision("lease-2.8.up", 3, map[string]int32{"prefill": 3})), want: DecisionMismatch},
		"decides for a role that is not there":       {old: was, new: commits(counts(3, 2), decision("lease-2.8.up", 3, map[string]int32{"prefill": 3, "decode": 2, "x": 1})), want: DecisionMismatch},
		"decides under a lower term":                 {old: was, new: commits(counts(3, 2), decision("lease-2.8.up", 2, counts(3, 2))), want: StaleTerm},
		"decides under a higher term":                {old: was, new: commits(counts(3, 2), decision("lease-2.8.up", 4, counts(3, 2))), want: StaleTerm},
		"decides under a term below the last one's":  {old: object(counts(2, 2), bound2, latest), new: object(counts(3, 2), bound2, decision("lease-2.8.up", 2, counts(3, 2))), want: StaleTerm},
		"repeats the last decision's number":         {old: was, new: commits(counts(3, 2), decision("lease-2.7.up", 3, counts(3, 2))), want: StaleDecision},
		"repeats the last decision's identity":       {old: was, new: commits(counts(3, 2), decision("lease-1.7.up", 3, counts(3, 2))), want: StaleDecision},
		"goes back in numbers":                       {old: was, new: commits(counts(3, 2), decision("lease-2.6.up", 3, counts(3, 2))), want: StaleDecision},
		"grows in a commit that shrinks":             {old: was, new: commits(counts(3, 1), decision("lease-2.8.up", 3, counts(3, 1))), want: DecisionMismatch},
		"grows with a kind that shrinks":             {old: was, new: commits(counts(3, 2), decision("lease-2.8.rollback", 3, counts(3, 2))), want: DecisionMismatch},
		"shrinks with a kind that grows":             {old: was, new: commits(counts(1, 2), decision("lease-2.8.restore", 3, counts(1, 2))), want: DecisionMismatch},
		"adds a role":                                {old: was, new: commits(map[string]int32{"prefill": 3, "decode": 2, "x": 1}, latest), want: RolesChanged},
		"drops a role":                               {old: was, new: commits(map[string]int32{"prefill": 3}, latest), want: RolesChanged},
		"renames a role":                             {old: was, new: commits(map[string]int32{"prefill": 3, "x": 2}, latest), want: RolesChanged},
		"commits as the leader before":               {old: was, new: commits(counts(3, 2), decision("lease-1.8.up", 3, counts(3, 2))), facts: live, want: StaleEpoch},
		"commits as a leader to come":                {old: was, new: commits(counts(3, 2), decision("lease-3.8.up", 3, counts(3, 2))), facts: live, want: StaleEpoch},
		"commits as the leader of a recreated Lease": {old: was, new: commits(counts(3, 2), decision("other-2.8.up", 3, counts(3, 2))), facts: live, want: StaleEpoch},
		"commits while the Lease cannot be read":     {old: was, new: commits(counts(3, 2), decision("lease-2.8.up", 3, counts(3, 2))), facts: new(unreachable()), want: FactsNotAvailable},
	}, true)
}

func TestDeciderOnADeploymentWithAnUnreadableBinding(t *testing.T) {
	was := object(counts(2, 2), garbage, latest)
	judge(t, map[string]row{
		"changes something else":     {old: was, new: was},
		"removes it":                 {old: was, new: object(counts(2, 2), "-", latest)},
		"replaces it":                {old: was, new: object(counts(2, 2), bound3, latest), want: InvalidBinding},
		"commits":                    {old: was, new: object(counts(3, 2), garbage, decision("lease-2.8.up", 3, counts(3, 2))), want: InvalidBinding},
		"removes it and commits":     {old: was, new: object(counts(3, 2), "-", decision("lease-2.8.up", 3, counts(3, 2))), want: InvalidBinding},
		"removes it with a decision": {old: was, new: object(counts(2, 2), "-", "-"), want: InvalidBinding},
	}, true)
}

func TestARefusalSaysWhoOwnsWhatAndTheWayOut(t *testing.T) {
	was := object(counts(2, 2), bound3, latest)
	to := maps.Clone(was.Counts)
	to["decode"], to["encode"] = 5, 1
	delete(to, "prefill")
	refusal := Check(Request{Namespace: "ns", Name: "m1", Old: &was, New: object(to, bound3, latest), Facts: unasked(t)})
	require.Equal(t, "ModelDeployment ns/m1: the replica counts belong to ModelDeploymentScaler s1 (uid u1, term 3), and this write "+
		"would change decode from 2 to 5, encode added with 1, prefill removed. To set counts yourself, let go of the deployment "+
		"first: suspend scaler s1, set its mode to Shadow, or delete it; if it is gone already, remove the annotation "+
		"modeldeployment.gpustack.ai/scaler-binding by itself. To move the bounds, edit the scaler. A GitOps controller has to leave "+
		"the replica counts and both scaler annotations alone: `kubectl mds gitops m1 -n ns` prints how (documentation: GitOps sync)",
		refusal.Error())
}
