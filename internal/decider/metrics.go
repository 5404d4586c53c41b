package decider

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/decide"
)

// Results of passes, and outcomes of commits.
const (
	resultOK        = "ok"
	resultFailed    = "failed"
	outcomeDone     = "written"
	outcomeFailed   = "failed"
	outcomeDenied   = "denied"   // by the API server, the webhook above all
	outcomeWithheld = "withheld" // our own check of the fence disagreed with the plan, so nothing was sent: a defect
)

// metrics of the decider. Those of a scaler are deleted with it.
type metrics struct {
	leader       prometheus.Gauge
	samplers     prometheus.Gauge
	passes       *prometheus.CounterVec
	passDuration prometheus.Histogram
	commits      *prometheus.CounterVec
	age          prometheus.Histogram
	takeover     prometheus.Histogram
	current      *prometheus.GaugeVec
	ready        *prometheus.GaugeVec
	recommended  *prometheus.GaugeVec
	constrained  *prometheus.GaugeVec
	queue        *queueMetrics
}

func newMetrics(r prometheus.Registerer) *metrics {
	byRole := []string{"namespace", "scaler", "role"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, byRole)
	}
	m := &metrics{
		leader:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "mds_decider_leader", Help: "1 while this copy leads, else 0."}),
		samplers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "mds_decider_samplers_connected", Help: "Samplers that take assignments."}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mds_decider_passes_total",
			Help: "Planning passes, by result."}, []string{"result"}),
		passDuration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "mds_decider_pass_duration_seconds",
			Help: "Time of one planning pass, writes included.", Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16)}),
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mds_decider_commits_total",
			Help: "Writes to targets, by kind (up, down, rollback, restore, donate, acquire, bind, release) and outcome (written, failed, denied, withheld)."}, []string{"kind", "outcome"}),
		age: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "mds_decider_observation_age_seconds",
			Help: "Age of the observations that passes planned with.", Buckets: []float64{0.05, 0.2, 1, 5, 15, 32, 60, 120, 300, 600}}),
		takeover: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "mds_decider_takeover_seconds",
			Help:    "Time from the begin of this leadership to the first plan of each scaler that an earlier one had reported.",
			Buckets: []float64{0.5, 1, 1.5, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 60}}),
		current:     gauge("mds_decider_current_replicas", "Desired replicas on the target."),
		ready:       gauge("mds_decider_ready_replicas", "Ready replicas, the capacity that is planned with."),
		recommended: gauge("mds_decider_recommended_replicas", "Replicas that the algorithm recommends."),
		constrained: gauge("mds_decider_constrained_replicas", "Replicas after windows, steps, bounds, guards and ratios."),
		queue:       newQueueMetrics(r),
	}
	r.MustRegister(m.leader, m.samplers, m.passes, m.passDuration, m.commits, m.age, m.takeover, m.current, m.ready, m.recommended, m.constrained)
	return m
}

// passed counts one pass.
func (m *metrics) passed(took time.Duration, err error) {
	result := resultOK
	if err != nil {
		result = resultFailed
	}
	m.passes.WithLabelValues(result).Inc()
	m.passDuration.Observe(took.Seconds())
}

// observePass shows what a pass made of every role. Series of roles that went are dropped.
func (m *metrics) observePass(v *view, state decide.State) {
	for _, o := range v.in.Observations {
		m.age.Observe(o.Age.Seconds())
	}
	kept := make(map[string]bool, len(state.Roles))
	for _, role := range state.Roles {
		kept[role.Name] = true
		labels := []string{v.name.Namespace, v.name.Name, role.Name}
		m.current.WithLabelValues(labels...).Set(float64(role.Current))
		m.ready.WithLabelValues(labels...).Set(float64(role.Ready))
		m.recommended.WithLabelValues(labels...).Set(float64(role.Raw))
		m.constrained.WithLabelValues(labels...).Set(float64(role.Constrained))
	}
	for _, role := range v.in.State.Roles {
		if !kept[role.Name] {
			m.drop(prometheus.Labels{"namespace": v.name.Namespace, "scaler": v.name.Name, "role": role.Name})
		}
	}
}

// forget drops the series of a scaler that is gone.
func (m *metrics) forget(name types.NamespacedName) {
	m.drop(prometheus.Labels{"namespace": name.Namespace, "scaler": name.Name})
}

func (m *metrics) drop(labels prometheus.Labels) {
	for _, gauge := range []*prometheus.GaugeVec{m.current, m.ready, m.recommended, m.constrained} {
		gauge.DeletePartialMatch(labels)
	}
}
