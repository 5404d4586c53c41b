package cli

import (
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// handOverManager owns the counts between the GitOps controller, which gives them up, and the scaler's next commit. Not a name
// that starts with "kubectl": Flux takes over what such managers own.
const handOverManager = "scaler-hand-over"

// recipe is how a GitOps controller and a scaler share a deployment. Fields that are objects are manifests, or what to add to them.
type recipe struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Roles     []recipeRole `json:"roles"`
	// Pointers (RFC 6901) of all that the scaler owns.
	Pointers []string `json:"pointers"`
	// HandOver is applied server-side, once; absent when the counts are not known.
	HandOver map[string]any `json:"handOver,omitempty"`
	// Git is the deployment as far as it matters: roles without counts.
	Git    map[string]any `json:"git"`
	ArgoCD recipeArgoCD   `json:"argocd"`
	Flux   recipeFlux     `json:"flux"`

	cluster string // arguments of kubectl that lead to where the deployment was read
}

type recipeRole struct {
	Name     string `json:"name"`
	Index    int    `json:"index"`
	Replicas int32  `json:"replicas"` // 1 where a manifest leaves it out
}

type recipeArgoCD struct {
	// ServerSideApply for counts that are left out of Git, IgnoreDifferences for counts that stay there.
	ServerSideApply   map[string]any `json:"serverSideApply"`
	IgnoreDifferences map[string]any `json:"ignoreDifferences"`
}

type recipeFlux struct {
	Ignore map[string]any `json:"ignore"`
}

func recipeOf(d target.Deployment, apiVersion string) *recipe {
	r := &recipe{Namespace: d.Namespace, Name: d.Name}
	var roles []any
	for i, role := range d.Roles {
		r.Roles = append(r.Roles, recipeRole{role.Name, i, role.Replicas})
		r.Pointers = append(r.Pointers, fmt.Sprintf("/spec/roles/%d/replicas", i))
		roles = append(roles, map[string]any{"name": role.Name})
	}
	for _, key := range []string{fence.BindingAnnotation, fence.DecisionAnnotation} {
		r.Pointers = append(r.Pointers, "/metadata/annotations/"+strings.ReplaceAll(key, "/", "~1"))
	}
	r.Git = r.deployment(apiVersion, roles)
	r.ArgoCD = r.argoCD()
	r.Flux = r.flux()
	return r
}

// handOver is for counts that are known to be the live ones.
func (r *recipe) handOver(d target.Deployment, apiVersion, cluster string) {
	var roles []any
	for _, role := range d.Roles {
		roles = append(roles, map[string]any{"name": role.Name, "replicas": role.Replicas})
	}
	r.HandOver, r.cluster = r.deployment(apiVersion, roles), cluster
}

func (r *recipe) deployment(apiVersion string, roles []any) map[string]any {
	return map[string]any{
		"apiVersion": apiVersion, "kind": target.Kind,
		"metadata": map[string]any{"name": r.Name, "namespace": r.Namespace}, "spec": map[string]any{"roles": roles},
	}
}

func (r *recipe) argoCD() recipeArgoCD {
	application := func(metadata, spec map[string]any) map[string]any {
		object := map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": spec}
		if metadata != nil {
			object["metadata"] = metadata
		}
		return object
	}
	options := func(options ...string) map[string]any { return map[string]any{"syncOptions": options} }
	return recipeArgoCD{
		ServerSideApply: application(
			map[string]any{"annotations": map[string]any{"argocd.argoproj.io/compare-options": "ServerSideDiff=true"}},
			map[string]any{"syncPolicy": options("ServerSideApply=true")},
		),
		IgnoreDifferences: application(nil, map[string]any{
			"ignoreDifferences": []any{map[string]any{
				"group": target.GroupName, "kind": target.Kind, "name": r.Name, "namespace": r.Namespace, "jsonPointers": r.Pointers,
			}},
			"syncPolicy": options("RespectIgnoreDifferences=true"),
		}),
	}
}

func (r *recipe) flux() recipeFlux {
	return recipeFlux{Ignore: map[string]any{
		"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
		"spec": map[string]any{"ignore": []any{map[string]any{
			"target": map[string]any{"group": target.GroupName, "kind": target.Kind, "name": r.Name, "namespace": r.Namespace},
			"paths":  r.Pointers,
		}}},
	}}
}

// print writes comments for people around manifests and a command for copying.
func (r *recipe) print(out io.Writer) error {
	p := &recipePrinter{out: out}
	p.say(fmt.Sprintf("%s %s/%s: %s.", target.Kind, r.Namespace, r.Name, r.roles()))
	if r.HandOver != nil {
		p.say("\n1. Hand the counts over: once, before they are taken out of Git, and when a sync was refused because it drops them.")
		p.text("kubectl apply " + r.cluster + "--server-side --field-manager=" + handOverManager + " -f - <<'EOF'\n")
		p.manifest(r.HandOver)
		p.text("EOF\n")
	} else {
		p.say("\n1. Hand the counts over: this command prints how when it is run without -f, with the counts of the cluster.")
	}
	p.say("\n2. Git: no replicas in any role, and neither scaler annotation. All other fields stay.")
	p.manifest(r.Git)
	p.say("\n3. Flux needs nothing more. Argo CD has to apply and to compare on the server; add to the Application:")
	p.manifest(r.ArgoCD.ServerSideApply)
	p.say("\nInstead of 2 and 3, where counts have to stay in Git: Argo CD ignores them with the rule below, but keeps the whole list\n" +
		"spec.roles as it is in the cluster, so that no other field of a role is synced any more (argo-cd #17694, #23283). It does\n" +
		"not go together with ServerSideDiff.")
	p.manifest(r.ArgoCD.IgnoreDifferences)
	p.say("\nFlux has ignore rules from 2.9 on. It tries what is in Git before it looks at them (kustomize-controller #1739), and that is\n" +
		"refused once a count differs, so they help only where counts are left out of Git anyway:")
	p.manifest(r.Flux.Ignore)
	return p.err
}

func (r *recipe) roles() string {
	var roles []string
	for _, role := range r.Roles {
		unit := "replicas"
		if role.Replicas == 1 {
			unit = "replica"
		}
		roles = append(roles, fmt.Sprintf("%s (spec.roles[%d], %d %s)", role.Name, role.Index, role.Replicas, unit))
	}
	return strings.Join(roles, ", ")
}

// recipePrinter keeps the first error.
type recipePrinter struct {
	out io.Writer
	err error
}

// say writes a comment, so that the output stays YAML and shell. A line break at its start is an empty line.
func (p *recipePrinter) say(comment string) {
	for line := range strings.SplitSeq(comment, "\n") {
		if line != "" {
			line = "# " + line
		}
		p.text(line + "\n")
	}
}

func (p *recipePrinter) manifest(object map[string]any) {
	data, err := yaml.Marshal(object)
	if p.err == nil {
		p.err = err
	}
	p.text(string(data))
}

func (p *recipePrinter) text(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, s)
	}
}
