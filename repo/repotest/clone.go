package repotest

import "reflect"

// clone deeply copies a value, so that it does not change if it shares memory with
// a store.
func clone[V any](value V) V {
	copied := reflect.New(reflect.TypeFor[V]()).Elem()
	cloneInto(copied, reflect.ValueOf(&value).Elem())
	return copied.Interface().(V)
}

func cloneInto(to, from reflect.Value) {
	to.Set(from)
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			cloneInto(to.Elem(), from.Elem())
		}
	case reflect.Interface:
		if !from.IsNil() {
			copied := reflect.New(from.Elem().Type()).Elem()
			cloneInto(copied, from.Elem())
			to.Set(copied)
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			if from.Type().Elem().Kind() == reflect.Uint8 {
				reflect.Copy(to, from)
				return
			}
			for i := range from.Len() {
				cloneInto(to.Index(i), from.Index(i))
			}
		}
	case reflect.Struct:
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() { // a time is copied whole
				cloneInto(to.Field(i), from.Field(i))
			}
		}
	}
}
