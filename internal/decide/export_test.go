package decide

// For the tests outside of the package, which drive the planner through package scenario.
var (
	ClearPointers = clearPointers
	QuantityOf    = quantityOf
	RandomRatio   = randomRatio
	Tables        = tables
	Column        = column
)

// Clone is clone.
func Clone[T any](v T) T { return clone(v) }
