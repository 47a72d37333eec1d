# Values as the text that Arrow prints.

import decimal
import math

NULL = "NULL"


def shown(value):
    if value is None:
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return str(value)


