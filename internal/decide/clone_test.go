package decide

import "reflect"

// clone copies a value with everything it points to, so that a test can say that a function left its argument alone.
// Structs with unexported fields (times, quantities) are copied as they are: nobody can change them through a copy.
func clone[T any](v T) T {
	return cloned(reflect.ValueOf(&v)).Elem().Interface().(T)
}

func cloned(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		to := reflect.New(v.Type().Elem())
		to.Elem().Set(cloned(v.Elem()))
		return to
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		to := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			to.Index(i).Set(cloned(v.Index(i)))
		}
		return to
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		to := reflect.MakeMap(v.Type())
		for _, key := range v.MapKeys() {
			to.SetMapIndex(key, cloned(v.MapIndex(key)))
		}
		return to
	case reflect.Struct:
		to := reflect.New(v.Type()).Elem()
		to.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				to.Field(i).Set(cloned(v.Field(i)))
			}
		}
		return to
	}
	return v
}

// clearPointers is a value in which nothing is hidden behind a pointer, so that its text tells all of it.
func clearPointers(v any) any {
	value := reflect.ValueOf(v)
	switch value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			return nil
		}
		return clearPointers(value.Elem().Interface())
	case reflect.Slice:
		all := make([]any, value.Len())
		for i := range all {
			all[i] = clearPointers(value.Index(i).Interface())
		}
		return all
	case reflect.Map:
		all := map[string]any{}
		for _, key := range value.MapKeys() {
			all[key.String()] = clearPointers(value.MapIndex(key).Interface())
		}
		return all
	case reflect.Struct:
		if text, ok := v.(interface{ String() string }); ok {
			return text.String()
		}
		var all []any
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				all = append(all, clearPointers(value.Field(i).Interface()))
			}
		}
		return all
	}
	return v
}
