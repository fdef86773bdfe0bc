// SPDX-License-Identifier: Apache-2.0
#include "phalanx/wire/codec.h"
