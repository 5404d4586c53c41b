package main

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

type schema = apiextensionsv1.JSONSchemaProps

// Quantities of the spec. The exponent is kept short for two reasons: the value stays finite as a float (D42), and neither
// the API server nor anybody else computes with 1e9999999, which takes seconds. A failed pattern does not keep the API
// server from evaluating rules, so the rule looks at the exponent again before it computes.
const (
	quantityMaxLength = 64
	quantityPattern   = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
	// A quantity keeps nine decimals and rounds up, so that what is under 1e-9 becomes 1e-9: it is told by its spelling.
	positiveRule = `!string(self).matches('[eE][+-]?[0-9]{3}') && isQuantity(string(self)) && (quantity(string(self)).isGreaterThan(quantity('1n')) || ` +
		`string(self).matches('^[+]?(0*1(\\.0*)?(n|[eE]-0?9)|0*\\.0{8}10*)$'))`
	positiveMessage = `must be a quantity over 0, such as "0.5" or "2000", and not under 1e-9`
)

// Quantities of the spec that may be zero or less: the planner takes the default instead (spec "Predictive").
var anySign = map[string]bool{"qLevel": true, "qTrend": true, "measurementNoise": true}

// boundQuantities limits the length of every quantity, and shape and sign of those that users write. Status quantities
// come from the scaler, which keeps them finite.
func boundQuantities(root *schema) {
	walk(root, "", func(_ string, s *schema) {
		if s.XIntOrString {
			s.MaxLength = ptr.To[int64](quantityMaxLength)
		}
	})
	spec := root.Properties["spec"]
	walk(&spec, "spec", func(name string, s *schema) {
		if !s.XIntOrString {
			return
		}
		s.Pattern = quantityPattern
		if !anySign[name] {
			s.XValidations = append(s.XValidations, apiextensionsv1.ValidationRule{Rule: positiveRule, Message: positiveMessage})
		}
	})
	root.Properties["spec"] = spec
}

// unwrapDescriptions joins the lines of each paragraph.
func unwrapDescriptions(root *schema) {
	walk(root, "", func(_ string, s *schema) {
		paragraphs := strings.Split(s.Description, "\n\n")
		for i, p := range paragraphs {
			paragraphs[i] = strings.ReplaceAll(p, "\n", " ")
		}
		s.Description = strings.Join(paragraphs, "\n\n")
	})
}

// walk calls visit for s and everything below it; name is the property that s describes, also for the items of a list.
func walk(s *schema, name string, visit func(name string, s *schema)) {
	visit(name, s)
	for property, child := range s.Properties {
		walk(&child, property, visit)
		s.Properties[property] = child
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(s.Items.Schema, name, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(s.AdditionalProperties.Schema, name, visit)
	}
}
