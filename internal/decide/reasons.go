package decide

// Reasons of roles (spec "Role observations"): why a role's count is what it is.
const (
	ReasonProportional         = "Proportional"
	ReasonTokenThroughput      = "TokenThroughput"
	ReasonPredictive           = "Predictive"
	ReasonWithinTolerance      = "WithinTolerance"
	ReasonPanic                = "Panic"
	ReasonNoReadyReplicas      = "NoReadyReplicas"
	ReasonWaitingForMetrics    = "WaitingForMetrics"
	ReasonLatencyGuardHold     = "LatencyGuardHold"
	ReasonLatencyGuardScaleUp  = "LatencyGuardScaleUp"
	ReasonPredictorWarmingUp   = "PredictorWarmingUp"
	ReasonConsolidationHold    = "PredictiveConsolidationHold"
	ReasonRatioCoupled         = "RatioCoupled"
	ReasonWaitingWithoutDemand = "WaitingWithoutDemand" // a queue, but no demand: not idle (D48)
	ReasonPacingBounded        = "PacingBounded"
	ReasonResourceExhausted    = "ResourceExhausted"
)

// Stages of a role's plan, in the order of D23. They name the steps of a Decision's Trace.
const (
	StageRecommend  = "recommend"
	StageUpWindow   = "upWindow"
	StageDownWindow = "downWindow"
	StageStep       = "step"
	StageBounds     = "bounds"
	StageGuards     = "guards"
	StageProject    = "project"
	StageDirection  = "direction"
	StageRebalance  = "rebalance"
	StageRecover    = "recover"
)

// Rules that act in the stages after the recommendation.
const (
	RuleUpWindow      = "UpWindow"           // the lowest recommendation of the window limits growth (D24)
	RuleDownWindow    = "DownWindow"         // the highest recommendation of the window is a floor (D24)
	RuleHistoryShort  = "HistoryShort"       // the history does not span the window yet (D24)
	RuleStep          = "Step"               // the step limit of one pass
	RuleBounds        = "Bounds"             // minReplicas or maxReplicas
	RuleCohort        = "PendingCohort"      // a growth of this target is not admitted yet
	RuleUnadmitted    = "UnadmittedReplica"  // a replica of this role has no admission (D29)
	RuleExhausted     = "Exhausted"          // the cluster had no room for this role (D31)
	RuleSmallerRetry  = "SmallerRetry"       // later retries ask for half of what was refused (D31)
	RuleNotReady      = "NoReadyReplicas"    // nobody would serve
	RuleCoverage      = "IncompleteCoverage" // a partial sum is a lower bound (D3)
	RuleAlgorithmHold = "AlgorithmHold"      // the algorithm allows no shrink
	RuleYoungWindows  = "YoungWindows"       // the demand windows are not known to be whole yet (D54)
	RuleRetirement    = "Retirement"         // a replica of the target is being removed
	RuleCooldown      = "AbortCooldown"      // a removal was aborted not long ago
	RuleDecodeGrace   = "DecodeGrace"        // a Decode role has just grown
	RuleOwnCohort     = "OwnCohort"          // a role does not shrink under its own pending growth
	RuleRatio         = "Ratio"              // the ratio bands and targets of the component (D27)
	RuleUndecided     = "SearchUndecided"    // the projection's search hit its budget (D27)
	RuleGrowthFirst   = "GrowthFirst"        // one commit moves one way (D26)
	RuleRestore       = "Restore"            // an aborted removal is undone (D30)
	RuleRollback      = "Rollback"           // a refused growth is taken back (D30)
	RuleRebalance     = "Rebalance"          // a transfer of capacity runs (D59)
)
