# make            the programs and liblx
# make check      everything that is tested (installs what is missing)
# make demo       the main job on the PDFs in examples/data (installs what is missing)
# make bench      what it costs, as ratios
# make install    PREFIX=/usr/local DESTDIR=
# SAN=address,undefined make check   the same with sanitizers, in a build folder of its own

VERSION  = 0.1.0
SAN      =
B        = build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
comma   := ,

CC      ?= cc
PKG     := libzstd $(shell pkg-config --exists msgpack-c 2>/dev/null && echo msgpack-c || echo msgpack) libxxhash
CFLAGS  ?= -O2 -g
WARN     = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wno-missing-field-initializers
ALL_CFLAGS  = -std=c11 -D_GNU_SOURCE -DLX_VERSION_TEXT='"$(VERSION)"' -Ilib -Iformats -Icmd $(WARN) $(CFLAGS) -fPIC -MMD -MP \
              $(shell pkg-config --cflags $(PKG)) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
ALL_LDFLAGS = $(LDFLAGS) $(if $(SAN),-fsanitize=$(SAN))
LIBS     = $(shell pkg-config --libs $(PKG)) -lm

obj      = $(patsubst %.c,$(B)/%.o,$(wildcard $(1)))
LIB_OBJ  = $(call obj,lib/*.c)
FMT_OBJ  = $(call obj,formats/*.c)
TOOLS    = $(patsubst cmd/%.c,$(B)/bin/%,$(wildcard cmd/lx-*.c))
UNITS    = $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*.c))

all: $(TOOLS)
units: $(UNITS)

# Flags are a normal prerequisite: changed flags rebuild.
$(B)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS)' >$@

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(B)/liblx.a: $(LIB_OBJ)
$(B)/libformats.a: $(FMT_OBJ)
$(B)/%.a:
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/bin/%: $(B)/cmd/%.o $(B)/cmd/cmd.o $(B)/libformats.a $(B)/liblx.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(B)/unit/%: $(B)/tests/unit/%.o $(B)/libformats.a $(B)/liblx.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

clean:
	rm -rf build build-*

FORCE:
.PHONY: all units clean FORCE
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
