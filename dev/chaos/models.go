package main

import (
	"time"

	"gpustack.ai/model-deployment-scaler/dev/invariants"
	"gpustack.ai/model-deployment-scaler/internal/sim"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

const namespace = "chaos"

// The models: one of a role, two roles that must keep their ratio, one whose growth finds no quota, and one that is sized by
// token rates. A second scaler of that, in Shadow, always wants fewer replicas than there are: its plans say whether the windows
// are whole.
const (
	chat = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: chat}
spec:
  model: {name: Qwen/Qwen3-8B}
  engine: {name: vLLM}
  roles: [{name: server, kind: Server, replicas: 1, instanceType: wide}]
`
	chatScaler = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  mode: Active
  sampling: {intervalSeconds: 5}
  roles: [{name: server, minReplicas: 1, maxReplicas: 5}]
  algorithm:
    proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}]}
  behavior:
    scaleUp: {stepPolicy: {type: Pods, value: 1}}
    scaleDown: {stabilizationWindowSeconds: 3, stepPolicy: {type: Pods, value: 1}}
`
	others = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: pair}
spec:
  model: {name: Qwen/Qwen3-32B}
  engine: {name: SGLang}
  roles:
    - {name: prefill, kind: Prefill, replicas: 1, instanceType: wide}
    - {name: decode, kind: Decode, replicas: 2, instanceType: wide}
---
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: pair}
spec:
  targetRef: {name: pair}
  mode: Active
  sampling: {intervalSeconds: 5}
  roles:
    - {name: prefill, minReplicas: 1, maxReplicas: 3}
    - {name: decode, minReplicas: 2, maxReplicas: 6}
  ratios: [{numeratorRole: decode, denominatorRole: prefill, min: "2", target: "2", max: "2"}]
  algorithm:
    proportional: {metric: QueueDepth, roleTargets: [{name: decode, target: "8"}]}
  behavior:
    scaleUp: {stepPolicy: {type: Pods, value: 2}}
    scaleDown: {stabilizationWindowSeconds: 10, decodePostScaleUpGraceSeconds: 5, stepPolicy: {type: Pods, value: 2}}
---
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: tight}
spec:
  model: {name: Qwen/Qwen3-8B}
  engine: {name: vLLM}
  roles: [{name: server, kind: Server, replicas: 1, instanceType: narrow}]
---
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: tight}
spec:
  targetRef: {name: tight}
  mode: Active
  sampling: {intervalSeconds: 5, pendingTimeoutSeconds: 60}
  roles: [{name: server, minReplicas: 1, maxReplicas: 5}]
  algorithm:
    proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}]}
  behavior:
    scaleUp: {stepPolicy: {type: Pods, value: 2}}
    scaleDown: {stabilizationWindowSeconds: 10, stepPolicy: {type: Pods, value: 2}}
---
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: tokens}
spec:
  model: {name: Qwen/Qwen3-8B}
  engine: {name: vLLM}
  roles: [{name: server, kind: Server, replicas: 2, instanceType: wide}]
---
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: tokens}
spec:
  targetRef: {name: tokens}
  mode: Active
  sampling: {intervalSeconds: 5}
  roles: [{name: server, minReplicas: 2, maxReplicas: 4}]
  algorithm:
    tokenThroughput: {serverTargetTokensPerSecond: "1500", stableWindowSeconds: 30, panicWindowSeconds: 10, ttftTargetMilliseconds: "60000", itlTargetMilliseconds: "60000"}
  behavior:
    scaleUp: {stepPolicy: {type: Pods, value: 1}}
    scaleDown: {stabilizationWindowSeconds: 10, stepPolicy: {type: Pods, value: 1}}
---
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: probe}
spec:
  targetRef: {name: tokens}
  mode: Shadow
  sampling: {intervalSeconds: 5}
  roles: [{name: server, minReplicas: 1, maxReplicas: 4}]
  algorithm:
    tokenThroughput: {serverTargetTokensPerSecond: "1000000000", stableWindowSeconds: 30, panicWindowSeconds: 10, ttftTargetMilliseconds: "60000", itlTargetMilliseconds: "60000"}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 30}
`
	// narrow quota, in Pods: two of the three that tight comes to want.
	narrow = 2
)

var names = []string{"chat", "pair", "tight", "tokens"}

// interval of all scalers.
const interval = 5 * time.Second

// probe is the scaler that always wants to shrink.
const probe = "probe"

// subjects are all roles that are planned.
var subjects = []subject{{"chat", "server"}, {"pair", "prefill"}, {"pair", "decode"}, {"tight", "server"}, {"tokens", "server"}, {probe, "server"}}

// queued are the roles that are sized by their own queue, 8 requests a replica, with the windows that their removals wait for.
// That of chat is short: each injection waits for it.
var queued = map[subject]time.Duration{{"chat", "server"}: 3 * time.Second, {"pair", "decode"}: 10 * time.Second, {"tight", "server"}: 10 * time.Second}

// A request takes 2 s, so the queue depth is twice the rate.
var (
	quiet = sim.Constant(2, 200, 120)
	busy  = sim.Constant(12, 200, 120) // chat comes to 3 replicas
)

// busyReplicas of chat; quietReplicas without load. Of tokens, which carries 1500 tokens a second each, they are 3 and 2.
const (
	busyReplicas, quietReplicas = 3, 1
	busyTokens, quietTokens     = 3, 2
)

func limits(name string) invariants.Limits {
	server := func(most int32) []workerv1.RoleBounds {
		return []workerv1.RoleBounds{{Name: "server", MinReplicas: 1, MaxReplicas: most}}
	}
	switch name {
	case "chat":
		return invariants.Limits{Roles: server(5), Up: 1, Down: 1}
	case "tight":
		return invariants.Limits{Roles: server(5), Up: 2, Down: 2}
	case "tokens":
		return invariants.Limits{Roles: []workerv1.RoleBounds{{Name: "server", MinReplicas: 2, MaxReplicas: 4}}, Up: 1, Down: 1}
	}
	return invariants.Limits{
		Roles:  []workerv1.RoleBounds{{Name: "prefill", MinReplicas: 1, MaxReplicas: 3}, {Name: "decode", MinReplicas: 2, MaxReplicas: 6}},
		Ratios: []workerv1.Ratio{{NumeratorRole: "decode", DenominatorRole: "prefill", Min: &two, Max: &two}},
		Up:     2, Down: 2,
	}
}
