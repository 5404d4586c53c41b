package decide

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// tables of a page of the documentation: rows of cells, without their heads and code marks.
func tables(t *testing.T, page string) (found [][][]string) {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + page)
	require.NoError(t, err)
	within := false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			within = false
		case strings.HasPrefix(line, "|---"):
			found, within = append(found, nil), true
		case within:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			found[len(found)-1] = append(found[len(found)-1], cells)
		}
	}
	return found
}

// column of a table, without code marks.
func column(table [][]string, at int) (cells []string) {
	for _, row := range table {
		cells = append(cells, strings.ReplaceAll(row[at], "`", ""))
	}
	return cells
}

// constants of a Go file whose names begin so, by value.
func constants(t *testing.T, file, prefix string) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is && strings.HasPrefix(spec.Names[0].Name, prefix) {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			values = append(values, value)
		}
		return true
	})
	require.NotEmpty(t, values)
	return values
}

// The tables of docs/reasons.md, in their order.
const (
	boundTable = iota
	metricsTable
	blockedTable
	reasonTable
	stageTable
)

func TestEveryReasonIsDocumented(t *testing.T) {
	page := tables(t, "reasons.md")
	listed := func(columns ...[]string) (all []string) {
		seen := map[string]bool{}
		for _, cells := range columns {
			for _, cell := range cells {
				for word := range strings.SplitSeq(cell, ", ") {
					if !seen[word] {
						seen[word], all = true, append(all, word)
					}
				}
			}
		}
		return all
	}
	require.ElementsMatch(t, constants(t, "../../api/worker/v1/conditions.go", "Reason"),
		listed(column(page[boundTable], 0), column(page[metricsTable], 0), column(page[blockedTable], 0)))
	constraints := append(column(page[reasonTable], 0), column(page[stageTable], 2)...)
	require.ElementsMatch(t, append(constants(t, "reasons.go", "Reason"), workerv1.ReasonScaleDownAborted), listed(constraints))
	require.ElementsMatch(t, constants(t, "reasons.go", "Rule"), listed(column(page[stageTable], 1)))
	require.ElementsMatch(t, constants(t, "reasons.go", "Stage"), listed([]string{StageRecommend}, column(page[stageTable], 0)))
}

// Everything that keeps a target from being planned, at once: what is reported is set right, one after the other.
func TestOwnershipIsReportedInTheOrderOfItsTable(t *testing.T) {
	s := with(server(4)).queue("server", 40).bound("{")
	s.Scaler.Spec.Mode, s.Scaler.Spec.Suspend = workerv1.ModeShadow, true
	s.State.Binding.TargetUID = "another"
	s.Target.Deleting = true
	var reported []string
	report := func(fix func()) {
		reported = append(reported, findCondition(Plan(s.Input).State.Conditions, workerv1.ConditionActive).Reason)
		fix()
	}
	report(func() { s.Target.Deleting = false })
	report(func() { s.Scaler.Spec.Suspend = false })
	report(func() { s.bound(`{"scalerName":"other","scalerUID":"other","term":3}`) })
	report(func() { s.State.Binding.TargetUID, s.Scaler.Spec.Mode = "target-1", workerv1.ModeActive })
	report(func() { s.bound(""); s.Scaler.Spec.Mode = workerv1.ModeShadow })
	report(func() {
		s.bound(`{"scalerName":"llm","scalerUID":"scaler-1","term":3}`)
		s.Scaler.Spec.Mode = workerv1.ModeActive
	})
	require.Equal(t, column(tables(t, "reasons.md")[boundTable], 0), append(reported, "Bound, Active"))
	require.Equal(t, "True/Active", conditionOf(Plan(s.Input).State, workerv1.ConditionActive))
}

func TestMetricsReadyIsReportedInTheOrderOfItsTable(t *testing.T) {
	s := with(named("a", observe.Server, 3), named("b", observe.Server, 2)).queue("a", 30)
	s.pending(workerv1.Vector{"a": 2, "b": 2}, workerv1.Vector{"a": 3, "b": 2}, noon.Add(-time.Hour))
	s.instance("a", 2, func(i *target.Instance) { i.Admission = target.AdmissionPending })
	delete(s.Observations, "b")
	s.Scaler.Spec.Roles[0].MaxReplicas = 1
	s.Scaler.Spec.Ratios = []workerv1.Ratio{{NumeratorRole: "a", DenominatorRole: "b", Min: quantityOf("4")}}
	var reported []string
	for _, fix := range []func(){
		func() { s.State.PendingCohort = nil },
		func() { s.Scaler.Spec.Roles[0].MaxReplicas = 16 },
		func() { s.Scaler.Spec.Ratios = nil },
		func() { s.observe("b", func(*observe.RoleObservation) {}) },
		func() {},
	} {
		reported = append(reported, findCondition(Plan(s.Input).State.Conditions, workerv1.ConditionMetricsReady).Reason)
		fix()
	}
	require.Equal(t, column(tables(t, "reasons.md")[metricsTable], 0), reported)
}

// TestBlockedNamesTheFirstObstacle proves the order of these cases.
func TestBlockedIsDocumentedInItsOrder(t *testing.T) {
	require.Equal(t, column(tables(t, "reasons.md")[blockedTable], 0), blockedOrder)
}

// A role that everything befalls which an algorithm can say: what is reported is set right, one after the other.
func TestTheAlgorithmsReasonsComeInTheOrderOfTheirTable(t *testing.T) {
	s := predicted(4, 150)
	s.State.Roles[0].PanicUntil = noon.Add(time.Minute)
	filter := &s.State.Predictors[0]
	filter.Samples, filter.Level, filter.P00, filter.P11 = 2, 290, 0.01, 0.0001 // sure of itself: this pass changes little
	s.observe("server", func(o *observe.RoleObservation) {
		o.Age, o.TTFT = time.Hour, latencyOf(ms(700))
		o.Prompt, o.Generation, o.Waiting = observe.Known(0), observe.Known(0), observe.Known(3)
	})
	for i := range s.Target.Instances {
		s.Target.Instances[i].Ready = false
	}
	var reported []string
	for _, fix := range []func(){
		func() {
			for i := range s.Target.Instances {
				s.Target.Instances[i].Ready = true
			}
		},
		func() { s.observe("server", func(o *observe.RoleObservation) { o.Age = 0 }) },
		func() { filter.Samples = 40 },
		func() { s.observe("server", func(o *observe.RoleObservation) { o.TTFT = latencyOf(ms(550)) }) },
		func() { s.State.Roles[0].PanicUntil = time.Time{} },
		func() { s.observe("server", func(o *observe.RoleObservation) { o.TTFT = latencyOf(ms(100)) }) },
		func() { filter.Level = 150 },
		func() {
			s.observe("server", func(o *observe.RoleObservation) { o.Generation, o.Waiting = observe.Known(150), observe.Known(0) })
		},
		func() {},
	} {
		reported = append(reported, Plan(s.Input).Trace["server"][0].Rule)
		fix()
	}
	var documented []string
	for _, row := range tables(t, "reasons.md")[reasonTable] {
		if row[1] != "Proportional" && row[1] != "roles without a target" && row[0] != "`TokenThroughput`" {
			documented = append(documented, strings.Trim(row[0], "`"))
		}
	}
	require.Equal(t, documented, reported)
}

// The rows of the stages are those of the chains, in their order, each with the reason that a role then has.
func TestStagesAreDocumentedInTheirOrder(t *testing.T) {
	var want [][]string
	add := func(stage, rule string) {
		r := role{first: rule, count: 4}
		r.reason, r.raw = "Algorithm", 9
		want = append(want, []string{stage, rule, r.finalReason()})
	}
	p, r := everythingHolds()
	for _, s := range stages[:4] {
		for _, limit := range []func(*pass, *role) (int32, string){s.most, s.least} {
			for _, known := range []bool{false, true} { // a history that is short, and one that is not
				r.next.History = nil
				if known {
					r.next.History = with(server(4)).remembering("server", 1).State.Roles[0].History
				}
				_, rule := limit(p, r)
				if rule != "" && (len(want) == 0 || want[len(want)-1][1] != rule) {
					add(s.name, rule)
				}
			}
		}
	}
	require.Equal(t, StageGuards, stages[4].name)
	for _, limit := range growthLimits {
		_, rule := limit(p, r)
		add(StageGuards, rule)
	}
	for _, guard := range shrinkForbidden {
		require.True(t, guard.forbid(p, r), guard.rule)
		add(StageGuards, guard.rule)
	}
	for _, s := range [][2]string{{StageProject, RuleRatio}, {StageProject, RuleUndecided}, {StageDirection, RuleGrowthFirst},
		{StageRebalance, RuleRebalance}, {StageRecover, RuleRestore}, {StageRecover, RuleRollback}} { // as Plan calls them
		add(s[0], s[1])
	}
	var documented [][]string
	for _, row := range tables(t, "reasons.md")[stageTable] {
		documented = append(documented, column([][]string{{row[0]}, {row[1]}, {row[2]}}, 0))
	}
	require.Equal(t, want, documented)
}

// everythingHolds is a pass in which every guard of growing and shrinking holds its role.
func everythingHolds() (*pass, *role) {
	s := with(named("server", observe.Decode, 4)).pending(workerv1.Vector{"server": 3}, workerv1.Vector{"server": 4}, noon)
	s.instance("server", 3, func(i *target.Instance) { i.Admission, i.Ready = target.AdmissionPending, false })
	s.Target.Retirement = &target.Retirement{State: target.RetirementDraining}
	s.Scaler.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = 60
	end := metav1.NewTime(noon.Add(time.Minute))
	s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"server"}, Attempts: 2, BlockedUntil: end, Increment: workerv1.Vector{"server": 2}}
	s.State.LastScaleDown = &workerv1.ScaleDownStatus{AbortedAt: &metav1.Time{Time: noon}, CooldownUntil: &end}
	s.State.Roles[0].LastScaleUpTime = noon
	p := newPass(s.Input)
	r := p.roles[0]
	r.ready, r.hold, r.partial, r.young = 0, ReasonPanic, true, true
	return p, r
}
