package fleet

import (
	"cmp"
	"slices"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// enginePort where a role names none.
const enginePort = 8000

// deployment is a ModelDeployment as far as the fleet needs it.
type deployment struct {
	target.Deployment
	model  string
	ports  map[string]int // engine port by role
	object *unstructured.Unstructured
}

func (d deployment) key() sim.Key { return sim.Key{Namespace: d.Namespace, Name: d.Name, UID: d.UID} }

func parse(u *unstructured.Unstructured) (deployment, error) {
	parsed, err := target.Parse(u)
	if err != nil {
		return deployment{}, err
	}
	model, _, _ := unstructured.NestedString(u.Object, "spec", "model", "name")
	return deployment{Deployment: parsed, model: cmp.Or(model, u.GetName()), ports: ports(u), object: u}, nil
}

// ports reads the first port of every role that has one.
func ports(u *unstructured.Unstructured) map[string]int {
	found := make(map[string]int)
	roles, _, _ := unstructured.NestedSlice(u.Object, "spec", "roles")
	for _, item := range roles {
		role, _ := item.(map[string]any)
		name, _ := role["name"].(string)
		list, _ := role["ports"].([]any)
		if len(list) == 0 {
			continue
		}
		first, _ := list[0].(map[string]any)
		if port, ok := first["port"].(int64); ok {
			found[name] = int(port)
		}
	}
	return found
}

func (d deployment) port(role string) int { return cmp.Or(d.ports[role], enginePort) }

// follow tells the world which deployments there are now, and returns the state of each.
func (f *Fleet) follow(objects []*unstructured.Unstructured) []state {
	known := make(map[sim.Key]deployment, len(objects))
	for _, u := range objects {
		d, err := parse(u)
		if err != nil {
			f.o.Log.Warn("skipped a deployment", zap.Error(err))
			continue
		}
		if !d.Deleting {
			known[d.key()] = d
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range f.world.Keys() {
		if _, there := known[key]; !there {
			f.world.Remove(key)
		}
	}
	for key, d := range known {
		f.apply(key, d)
	}
	f.known = known
	return f.states()
}

// apply a new or changed spec.
func (f *Fleet) apply(key sim.Key, d deployment) {
	before, there := f.known[key]
	if there && before.Generation == d.Generation {
		return
	}
	f.world.Apply(d.Deployment, d.model)
	if traffic, set := f.traffic[name{key.Namespace, key.Name}]; set && !there {
		f.world.SetTraffic(key, traffic)
	}
}

// state is what should be in the cluster of one deployment.
type state struct {
	deployment
	instances  []sim.Instance
	retirement *sim.Retirement
}

func (f *Fleet) states() []state {
	var list []state
	for key, d := range f.known {
		list = append(list, state{d, f.world.Instances(key), f.world.Retirement(key)})
	}
	slices.SortFunc(list, func(a, b state) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}
