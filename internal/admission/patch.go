package admission

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// addition is an operation of a JSON Patch (RFC 6902); adding a member that exists replaces it.
type addition struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// difference is what turns before into after, as additions to the object that was sent: before is how we read that object,
// so that another spelling of the same value (1000m for 1) is no difference. Only what defaulting does is covered: values
// appear or change, none disappears.
func difference(path string, sent, before, after any) []addition {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	switch is := after.(type) {
	case map[string]any:
		if to, ok := sent.(map[string]any); ok {
			was, _ := before.(map[string]any)
			return differenceOfMaps(path, to, was, is)
		}
	case []any:
		to, ok := sent.([]any)
		was, _ := before.([]any)
		if ok && len(to) == len(is) && len(was) == len(is) {
			return differenceOfLists(path, to, was, is)
		}
	}
	return []addition{{"add", path, after}}
}

// zeroStoresDefault are the members for which the spec says that zero stores the default ("Pacing and guards"). Any other
// zero that was sent stays, and the schema refuses it.
var zeroStoresDefault = []string{"maxStepReplicas", "maxStepPercent", "stabilizationWindowSeconds", "cooldownAfterAbortSeconds", "decodePostScaleUpGraceSeconds"}

func differenceOfMaps(path string, sent, before, after map[string]any) (operations []addition) {
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if isZero(sent[key]) && !slices.Contains(zeroStoresDefault, key) {
			continue
		}
		child := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		operations = append(operations, difference(child, sent[key], before[key], after[key])...)
	}
	return operations
}

// isZero says that a member was sent as the zero of its type, which Go reads like an omission.
func isZero(sent any) bool {
	switch value := sent.(type) {
	case string, float64, int64, bool:
		return reflect.ValueOf(value).IsZero()
	}
	return false
}

func differenceOfLists(path string, sent, before, after []any) (operations []addition) {
	for i := range after {
		operations = append(operations, difference(path+"/"+strconv.Itoa(i), sent[i], before[i], after[i])...)
	}
	return operations
}
