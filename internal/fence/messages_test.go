package fence

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/dev/sentences"
)

var update = flag.Bool("update", false, "write what comes into the golden files")

const refusalsFile = "testdata/refusals.txt"

// Every refusal of the fence, to be read as people read it: it has to name the object, the cause and the way out.
func TestEveryRefusalIsInTheGoldenFile(t *testing.T) {
	boundTo, left := object(counts(2, 2), bound3, latest), object(counts(2, 2), "-", latest)
	unclaimed := object(counts(2, 2), garbage, latest)
	up := func(to map[string]int32, id string, term int64) Object {
		return object(to, bound3, decision(id, term, to))
	}
	living, gone, down := facts("u1"), facts("u9"), unreachable()
	many := map[string]int32{}
	for i := range maxRoles + 1 {
		many[fmt.Sprintf("role-%d", i)] = 1
	}
	var text strings.Builder
	text.WriteString("What the fence answers. Made by go test ./internal/fence -update.\n")
	say := func(title string, r Request) {
		r.Namespace, r.Name = "ns", "m1"
		refusal := Check(r)
		require.NotNil(t, refusal, title)
		fmt.Fprintf(&text, "\n[%s]\n%d %s: %s\n", title, refusal.Code, refusal.Reason, refusal.Message)
	}
	text.WriteString("\n## To people and their controllers\n")
	for _, c := range []struct {
		title    string
		old, new Object
		facts    Facts
	}{
		{"counts of a bound deployment", boundTo, object(counts(5, 1), bound3, latest), living},
		{"roles of a bound deployment", boundTo, object(map[string]int32{"prefill": 2, "encode": 1}, bound3, latest), living},
		{"a binding installed by hand", left, object(counts(2, 2), bound4, latest), living},
		{"a decision written by hand", left, object(counts(2, 2), "-", decision("lease-1.8.up", 3, counts(2, 2))), living},
		{"a binding taken over", boundTo, object(counts(2, 2), others, latest), living},
		{"a decision removed", boundTo, object(counts(2, 2), bound3, "-"), living},
		{"a binding removed while its scaler lives", boundTo, object(counts(2, 2), "-", latest), living},
		{"a binding removed while its scaler cannot be looked up", boundTo, object(counts(2, 2), "-", latest), down},
		{"an unreadable binding, replaced by another", unclaimed, object(counts(2, 2), "x", latest), living},
		{"an unreadable binding, replaced by an empty one", unclaimed, object(counts(2, 2), "", latest), living},
		{"an unreadable binding, put back wrongly", unclaimed, object(counts(2, 2), bound3, latest), gone},
		{"an unreadable binding, put back while its scaler cannot be looked up", unclaimed, object(counts(2, 2), bound3, latest), down},
		{"a binding for a name that is none", unclaimed, object(counts(2, 2), `{"scalerName":"S 1","scalerUID":"u1","term":3}`, latest), living},
		{"a binding for a UID that is none", unclaimed, object(counts(2, 2), `{"scalerName":"s1","scalerUID":"","term":3}`, latest), living},
		{"a binding without a term", unclaimed, object(counts(2, 2), `{"scalerName":"s1","scalerUID":"u1"}`, latest), living},
		{"a binding that is too long", unclaimed, object(counts(2, 2), strings.Repeat("x", maxPayload+1), latest), living},
		{"a binding with more in it", unclaimed, object(counts(2, 2), `{"scalerName":"s1","scalerUID":"u1","term":3,"owner":"me"}`, latest), living},
	} {
		say(c.title, Request{Old: &c.old, New: c.new, Facts: c.facts})
	}
	say("a new deployment with an owner", Request{New: boundTo, Facts: living})

	text.WriteString("\n## To the decider\n")
	write := func(id string) Object { return object(counts(3, 2), bound3, id) }
	for _, c := range []struct {
		title    string
		old, new Object
		facts    Facts
	}{
		{"counts without a binding", left, object(counts(3, 2), "-", decision("lease-2.8.up", 4, counts(3, 2))), living},
		{"a binding that cannot be read", left, object(counts(2, 2), garbage, latest), living},
		{"a binding under an old term", left, object(counts(2, 2), bound3, latest), living},
		{"a commit under an unreadable binding", unclaimed, object(counts(3, 2), garbage, decision("lease-2.8.up", 3, counts(3, 2))), living},
		{"a binding replaced", boundTo, object(counts(2, 2), bound4, latest), living},
		{"a release that moves counts", boundTo, object(counts(3, 2), "-", latest), living},
		{"a role removed", boundTo, object(map[string]int32{"prefill": 3}, bound3, latest), living},
		{"a role added", boundTo, object(map[string]int32{"prefill": 3, "decode": 2, "x": 1}, bound3, latest), living},
		{"counts without a decision", boundTo, write(latest), living},
		{"a decision without counts", boundTo, object(counts(2, 2), bound3, decision("lease-2.8.up", 3, counts(2, 2))), living},
		{"a decision that cannot be read", boundTo, write("x"), living},
		{"a decision without an identity", boundTo, write(`{"decisionID":"up","term":3,"vector":{"prefill":3,"decode":2}}`), living},
		{"a decision of a number out of range", boundTo, write(`{"decisionID":"lease-2.9999999999999999999.up","term":3,"vector":{"prefill":3,"decode":2}}`), living},
		{"a decision without a term", boundTo, write(`{"decisionID":"lease-2.8.up","vector":{"prefill":3,"decode":2}}`), living},
		{"a decision for nobody", boundTo, write(`{"decisionID":"lease-2.8.up","term":3,"vector":{}}`), living},
		{"a decision for too many", boundTo, write(decision("lease-2.8.up", 3, many)), living},
		{"a decision for a role of no name", boundTo, write(`{"decisionID":"lease-2.8.up","term":3,"vector":{"A B":3}}`), living},
		{"a decision for no replicas", boundTo, write(decision("lease-2.8.up", 3, counts(0, 2))), living},
		{"a decision under another term", boundTo, up(counts(3, 2), "lease-2.8.up", 4), living},
		{"a decision that says something else", boundTo, write(decision("lease-2.8.up", 3, counts(4, 2))), living},
		{"the same decision again", boundTo, up(counts(3, 2), "lease-1.7.up", 3), living},
		{"a decision under a term that fell", object(counts(2, 2), bound2, latest), object(counts(3, 2), bound2, decision("lease-2.8.up", 2, counts(3, 2))), living},
		{"an earlier decision", boundTo, up(counts(3, 2), "lease-2.6.up", 3), living},
		{"a decision of the wrong kind", boundTo, up(counts(3, 2), "lease-2.8.down", 3), living},
		{"a decision of a leader that was", boundTo, up(counts(3, 2), "lease-1.8.up", 3), living},
		{"a decision while the Lease cannot be read", boundTo, up(counts(3, 2), "lease-2.8.up", 3), down},
	} {
		say(c.title, Request{Decider: true, Old: &c.old, New: c.new, Facts: c.facts})
	}
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(refusalsFile, []byte(text.String()), 0o600))
	}
	golden, err := os.ReadFile(refusalsFile)
	require.NoError(t, err)
	require.Equal(t, string(golden), text.String())
	require.NotContains(t, text.String(), "%!", "a broken format")
}

func TestNoSentenceOfTheCodeIsMissingFromTheGoldenFile(t *testing.T) {
	golden, err := os.ReadFile(refusalsFile)
	require.NoError(t, err)
	found, err := sentences.In(".")
	require.NoError(t, err)
	require.Greater(t, len(found), 30, "the search finds the sentences")
	require.Empty(t, sentences.Missing(found, string(golden)), "add a refusal to messages_test.go for each, and read it")
}
