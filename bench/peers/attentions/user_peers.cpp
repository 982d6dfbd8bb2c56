#include "peers_alibi.h"
