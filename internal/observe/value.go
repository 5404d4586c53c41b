package observe

// Value is a number that can be missing. The zero Value is missing.
type Value struct {
	Float64 float64
	Valid   bool
}

// Known is a Value that is there.
func Known(f float64) Value { return Value{Float64: f, Valid: true} }

// Plus is the sum, missing when either is.
func (v Value) Plus(w Value) Value {
	if !v.Valid || !w.Valid {
		return Value{}
	}
	return Known(v.Float64 + w.Float64)
}
