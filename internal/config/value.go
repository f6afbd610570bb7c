package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// set parses value, as git does, into what at points to. An empty value never comes here but for a
// boolean.
func set(at any, value string, least, most int64) error {
	switch p := at.(type) {
	case *string:
		*p = value
	case *bool:
		b, err := parseBool(value)
		if err != nil {
			return err
		}
		*p = b
	case *int:
		n, err := parseInt(value, least, most)
		if err != nil {
			return err
		}
		*p = int(n)
	case *int64:
		n, err := parseInt(value, least, most)
		if err != nil {
			return err
		}
		*p = n
	case *float64:
		f, err := parseFloat(value, least, most)
		if err != nil {
			return err
		}
		*p = f
	case **float64:
		f, err := parseFloat(value, least, most)
		if err != nil {
			return err
		}
		*p = &f
	default:
		panic(fmt.Sprintf("config: no parser for %T", at))
	}
	return nil
}

func parseBool(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "true", "yes", "on":
		return true, nil
	case "", "false", "no", "off":
		return false, nil
	}
	n, err := parseInt(value, math.MinInt32, math.MaxInt32)
	if err != nil {
		return false, errors.New("must be a boolean: true, yes, on, 1, false, no, off or 0")
	}
	return n != 0, nil
}

// parseInt knows git's suffixes k, m and g, and its hexadecimal and octal numbers.
func parseInt(value string, least, most int64) (int64, error) {
	digits, unit := value, int64(1)
	if n := len(value); n > 0 {
		switch value[n-1] | 0x20 {
		case 'k':
			unit = 1 << 10
		case 'm':
			unit = 1 << 20
		case 'g':
			unit = 1 << 30
		}
		if unit > 1 {
			digits = value[:n-1]
		}
	}
	n, err := strconv.ParseInt(digits, 0, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("must be %d to %d", least, most)
	}
	if err != nil || goOnly(digits) {
		return 0, fmt.Errorf("must be a whole number, %d to %d", least, most)
	}
	if n > math.MaxInt64/unit || n < math.MinInt64/unit || n*unit < least || n*unit > most {
		return 0, fmt.Errorf("must be %d to %d", least, most)
	}
	return n * unit, nil
}

// goOnly finds what Go's base 0 reads and git's does not: separators, and 0b and 0o.
func goOnly(digits string) bool {
	digits = strings.ToLower(strings.TrimLeft(digits, "+-"))
	return strings.Contains(digits, "_") || strings.HasPrefix(digits, "0b") || strings.HasPrefix(digits, "0o")
}

func parseFloat(value string, least, most int64) (float64, error) {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || strings.ContainsAny(value, "_xXnN") || f < float64(least) || f > float64(most) {
		return 0, fmt.Errorf("must be a number, %d to %d", least, most)
	}
	return f, nil
}
