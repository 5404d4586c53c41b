package fence

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseBindingIsStrict(t *testing.T) {
	for name, test := range map[string]struct{ value, problem string }{
		"an empty value":              {``, "unexpected end of JSON input"},
		"a word":                      {`s1`, "invalid character 's'"},
		"null":                        {`null`, "scalerName is not an object's name"},
		"a list":                      {`[]`, "cannot unmarshal array"},
		"an empty object":             {`{}`, "scalerName is not an object's name"},
		"no UID":                      {`{"scalerName":"s1","term":1}`, "scalerUID is not a UID"},
		"no term":                     {`{"scalerName":"s1","scalerUID":"u1"}`, "term is 0, terms start at 1"},
		"a term of zero":              {`{"scalerName":"s1","scalerUID":"u1","term":0}`, "term is 0, terms start at 1"},
		"a negative term":             {`{"scalerName":"s1","scalerUID":"u1","term":-1}`, "term is -1, terms start at 1"},
		"a term with a fraction":      {`{"scalerName":"s1","scalerUID":"u1","term":1.5}`, "cannot unmarshal number 1.5"},
		"a term in quotes":            {`{"scalerName":"s1","scalerUID":"u1","term":"1"}`, "cannot unmarshal string"},
		"a term that overflows":       {`{"scalerName":"s1","scalerUID":"u1","term":9223372036854775808}`, "cannot unmarshal number"},
		"an unknown field":            {`{"scalerName":"s1","scalerUID":"u1","term":1,"x":1}`, `unknown field "x"`},
		"a field in another case":     {`{"ScalerName":"s1","scalerName":"s1","scalerUID":"u1","term":1}`, `unknown field "ScalerName"`},
		"a repeated field":            {`{"scalerName":"s1","scalerUID":"u1","term":1,"term":2}`, `duplicate field "term"`},
		"something after the end":     {`{"scalerName":"s1","scalerUID":"u1","term":1} {}`, "after top-level value"},
		"a name that is no name":      {`{"scalerName":"S 1","scalerUID":"u1","term":1}`, "scalerName is not an object's name"},
		"a UID that is no UID":        {`{"scalerName":"s1","scalerUID":"u/1","term":1}`, "scalerUID is not a UID"},
		"more bytes than the limit":   {`{"scalerName":"` + strings.Repeat("a", 5000) + `"}`, "more than the limit of 4096"},
		"a cut value":                 {`{"scalerName":"s1","scalerUID":"u1","term":1`, "unexpected end of JSON input"},
		"a byte order mark before it": {"\ufeff" + `{"scalerName":"s1","scalerUID":"u1","term":1}`, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseBinding(test.value)
			require.ErrorContains(t, err, test.problem)
			require.Less(t, len(err.Error()), 300)
		})
	}
}

func TestParseDecisionIsStrict(t *testing.T) {
	with := func(vector string) string { return `{"decisionID":"e-0.1.up","term":1,"vector":` + vector + `}` }
	for name, test := range map[string]struct{ value, problem string }{
		"no identity":                 {`{"term":1,"vector":{"a":1}}`, "is not <epoch>.<sequence>.<kind>"},
		"an identity of another form": {`{"decisionID":"7","term":1,"vector":{"a":1}}`, "is not <epoch>.<sequence>.<kind>"},
		"no term":                     {`{"decisionID":"e-0.1.up","vector":{"a":1}}`, "terms start at 1"},
		"no vector":                   {`{"decisionID":"e-0.1.up","term":1}`, "vector has 0 roles"},
		"an empty vector":             {with(`{}`), "vector has 0 roles"},
		"a null vector":               {with(`null`), "vector has 0 roles"},
		"a vector that is a list":     {with(`[1]`), "cannot unmarshal array"},
		"a role twice":                {with(`{"a":1,"a":2}`), "duplicate field"},
		"a count of zero":             {with(`{"a":0}`), "gives role a 0 replicas"},
		"a null count":                {with(`{"a":null}`), "gives role a 0 replicas"},
		"a count over 1024":           {with(`{"a":1025}`), "gives role a 1025 replicas"},
		"a role without a name":       {with(`{"":1}`), "not a role's name"},
		"a role with a capital":       {with(`{"A":1}`), "not a role's name"},
		"more roles than a scaler may have": {with(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,` +
			`"n":1,"o":1,"p":1,"q":1}`), "vector has 17 roles"},
		"an unknown field": {`{"decisionID":"e-0.1.up","term":1,"vector":{"a":1},"why":""}`, `unknown field "why"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseDecision(test.value)
			require.ErrorContains(t, err, test.problem)
		})
	}
}

func TestDecisionIDHasOneSpelling(t *testing.T) {
	for name, id := range map[string]string{
		"empty":                     "",
		"two parts":                 "e-0.1",
		"no transitions":            "e.1.up",
		"a sequence of zero":        "e-0.0.up",
		"a leading zero":            "e-0.01.up",
		"a leading zero in epoch":   "e-00.1.up",
		"a signed sequence":         "e-0.+1.up",
		"a sequence that overflows": "e-0.9999999999999999999.up",
		"an unknown kind":           "e-0.1.sideways",
		"no kind":                   "e-0.1.",
		"a fourth part":             "e-0.1.up.2",
		"a UID of nine characters":  "123456789-0.1.up",
		"a space at the end":        "e-0.1.up ",
		"a line break at the end":   "e-0.1.up\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseDecisionID(id)
			require.Error(t, err)
		})
	}
}

func TestEpochCarriesEightCharactersOfTheLease(t *testing.T) {
	require.Equal(t, "0a1b2c3d-12", Epoch{LeaseUID: "0a1b2c3d-4e5f-6789-abcd-ef0123456789", Transitions: 12}.String())
	require.Equal(t, "ab-0", Epoch{LeaseUID: "ab"}.String())
}

func TestWhatIsWrittenIsWhatIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		binding := Binding{
			ScalerName: rapid.StringMatching(`[a-z0-9]([-.a-z0-9]{0,20}[a-z0-9])?`).Draw(t, "name"),
			ScalerUID:  rapid.StringMatching(`[-A-Za-z0-9]{1,64}`).Draw(t, "uid"),
			Term:       rapid.Int64Min(1).Draw(t, "term"),
		}
		readBinding, err := ParseBinding(binding.String())
		require.NoError(t, err)
		require.Equal(t, binding, readBinding)

		id := DecisionID{
			Epoch: Epoch{
				LeaseUID:    rapid.StringMatching(`[-a-f0-9]{1,36}`).Draw(t, "lease"),
				Transitions: rapid.Int64Range(0, 1<<40).Draw(t, "transitions"),
			}.String(),
			Sequence: rapid.Int64Min(1).Draw(t, "sequence"),
			Kind:     rapid.SampledFrom(kinds).Draw(t, "kind"),
		}
		readID, err := ParseDecisionID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, readID)

		decision := Decision{
			DecisionID: id.String(),
			Term:       binding.Term,
			Vector: rapid.MapOfN(rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?`), rapid.Int32Range(1, 1024), 1, 16).
				Draw(t, "vector"),
		}
		readDecision, err := ParseDecision(decision.String())
		require.NoError(t, err)
		require.Equal(t, decision, readDecision)
	})
}

var kinds = []CommitKind{CommitUp, CommitDown, CommitRollback, CommitRestore, CommitDonate, CommitAcquire}
