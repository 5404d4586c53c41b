package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestThePercentileCoversThatManyAnswers(t *testing.T) {
	var took []time.Duration
	for i := range 200 {
		took = append(took, time.Duration(i+1)*time.Millisecond)
	}
	require.Equal(t, 100*time.Millisecond, at(took, 50))
	require.Equal(t, 198*time.Millisecond, at(took, 99))
	require.Equal(t, 200*time.Millisecond, at(took, 100))
	require.Equal(t, time.Millisecond, at(took[:1], 99))
	require.Zero(t, at(nil, 99))
}

func TestTheReportFailsOnSlowAndOnWrongAnswers(t *testing.T) {
	o := options{cores: 1, limit: 5 * time.Millisecond}
	quick := slicesOf(100, answer{took: time.Millisecond})
	for name, tt := range map[string]struct {
		answers []answer
		want    string
	}{
		"all is well":             {quick, ""},
		"one in a hundred slow":   {append(slicesOf(99, answer{took: time.Millisecond}), answer{took: time.Second}), ""},
		"more than that":          {append(slicesOf(97, answer{took: time.Millisecond}), slicesOf(3, answer{took: time.Second})...), "all without a read: 99 % of the answers took up to 1s, over 5ms"},
		"an answer that is wrong": {append(quick, answer{err: errors.New("allowed is true")}), "allowed is true"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := report(&out, o, []one{{name: "counts"}}, measured{answers: [][]answer{tt.answers}, cores: 0.2})
			require.Contains(t, out.String(), "0.20 cores")
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestAnAnswerWithAReadMayTakeThatReadBesides(t *testing.T) {
	for took, within := range map[time.Duration]bool{8 * time.Millisecond: true, 10 * time.Millisecond: false} {
		m := measured{answers: [][]answer{slicesOf(100, answer{took: took})}, compared: slicesOf(100, answer{took: 4 * time.Millisecond})}
		err := report(&strings.Builder{}, options{limit: 5 * time.Millisecond}, []one{{name: "commit", reads: true}}, m)
		require.Equal(t, within, err == nil, "%s: %v", took, err)
	}
}

func slicesOf(n int, a answer) (all []answer) {
	for range n {
		all = append(all, a)
	}
	return all
}

func TestARequestIsAReviewOfTheWrite(t *testing.T) {
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(deploymentText), &u.Object))
	body, err := review("jane", grown(u), u)
	require.NoError(t, err)
	var sent admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(body, &sent))
	require.Equal(t, admissionv1.Update, sent.Request.Operation)
	require.Equal(t, "jane", sent.Request.UserInfo.Username)
	require.Contains(t, string(sent.Request.Object.Raw), `"replicas":3`)
	require.NotContains(t, string(sent.Request.OldObject.Raw), `"replicas":3`)
}
