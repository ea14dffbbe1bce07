# make            the programs and liblx
# make check      everything that is tested, without and with sanitizers (installs what is missing)
# make demo       the main job on the PDFs in examples/data (installs what is missing)
# make bench      what it costs, as ratios
# make check-gpu  the kernels on this machine's CUDA device against the CPU; make bench-gpu: how fast
# make install    PREFIX=/usr/local DESTDIR=   (make uninstall takes it away again)
# SAN=address,undefined make    a build with sanitizers, in a folder of its own

VERSION  = 0.1.0
PREFIX   = /usr/local
SAN     ?=
B        = build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
comma   := ,

CC      ?= cc
NVCC    ?= $(firstword $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null))
CFLAGS  ?= -O2 -g
PKG     := libzstd $(shell pkg-config --exists msgpack-c 2>/dev/null && echo msgpack-c || echo msgpack) libxxhash
IMAGES   = libpng libturbojpeg
WARN     = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wno-missing-field-initializers
SANFLAGS = $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE -DLX_VERSION_TEXT='"$(VERSION)"' -iquote lib -iquote formats -iquote gpu -iquote cmd $(WARN) $(CFLAGS) -fPIC -MMD -MP \
              $(shell pkg-config --cflags $(PKG) $(IMAGES) 2>/dev/null) $(SANFLAGS)
ALL_LDFLAGS = $(LDFLAGS) -Wl,--as-needed $(SANFLAGS)
LIBS    := $(shell pkg-config --libs $(PKG) $(IMAGES) 2>/dev/null) -lm

# Goals that compile need a compiler and the libraries; the others install them, or need none.
ifneq ($(filter-out deps check demo clean uninstall,$(or $(MAKECMDGOALS),all)),)
MISSING := $(shell tests/deps -l build)
$(if $(MISSING),$(error missing on this machine: $(MISSING) ("make deps" installs them)))
endif

obj      = $(patsubst %.c,$(B)/%.o,$(wildcard $(1)))
LIB_OBJ  = $(call obj,lib/*.c)
TOOLS    = $(patsubst cmd/%.c,$(B)/bin/%,$(wildcard cmd/lx-*.c))
UNITS    = $(patsubst tests/%.c,$(B)/%,$(wildcard tests/unit/*.c tests/fuzz/*.c))
HELPERS  = $(patsubst tests/%.c,$(B)/%,$(wildcard tests/tool/*.c))
DEVICE   = $(if $(NVCC),$(B)/device/check $(B)/device/bench)
FAKES    = $(if $(NVCC),$(B)/fake/libcuda.so.1)
BENCHES  = $(patsubst tests/%.c,$(B)/%,$(wildcard tests/bench/*.c))
LIBLX    = $(B)/liblx.a $(B)/liblx.so.0

all: $(TOOLS) $(LIBLX) $(B)/include/lx/kernel.h
units: $(UNITS) $(HELPERS) $(FAKES) $(DEVICE)

# Flags are a normal prerequisite: changed flags rebuild.
$(B)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(NVCC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS)' | cmp -s - $@ || echo '$(CC) $(NVCC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS)' >$@

# Kernels on the CPU: what -O2 leaves scalar is what they are made of.
$(B)/gpu/%.o: ALL_CFLAGS += -O3

# It holds the header that kernels of the user's are compiled with.
$(B)/gpu/compile.o: gpu/kernel.h

# Kernels on CUDA devices: for every architecture the toolkit knows, and as PTX for those to come. The driver is looked for
# when the program runs.
ifneq ($(NVCC),)
CUDA_FLAGS = -DLX_CUDA -isystem $(dir $(realpath $(shell command -v $(NVCC))))../include -DLX_KERNELS='"$(B)/gpu/kernels.fatbin"' \
             -DLX_CUDA_ARCHS='"$(strip $(shell $(NVCC) --list-gpu-code | sort -V | tr '\n' ' '))"'
$(B)/gpu/cuda.o $(B)/gpu/driver.o $(B)/tests/device/bench.o: ALL_CFLAGS += $(CUDA_FLAGS)
$(B)/gpu/cuda.o: $(B)/gpu/kernels.fatbin
$(B)/gpu/kernels.fatbin: gpu/kernels.cu gpu/kernel.h $(wildcard gpu/*.k.h)
	@mkdir -p $(@D)
	$(NVCC) -fatbin -arch=all -O3 -Xfatbin=-compress-all -Werror all-warnings -o $@ $<
$(B)/fake/libcuda.so.1: tests/fake/cuda.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(CUDA_FLAGS) -Wno-missing-prototypes -DLX_BLOCKS $(SANFLAGS) -shared -o $@ $<
else
$(B)/gpu/cuda.o: no-nvcc
no-nvcc:
	@echo 'no nvcc: lx-gpu gets no CUDA device (set NVCC if it is somewhere else)'
endif

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(B)/liblx.a: $(LIB_OBJ)
$(B)/libformats.a: $(call obj,formats/*.c)
$(B)/libgpu.a: $(call obj,gpu/*.c)
$(B)/%.a:
	@rm -f $@
	$(AR) rcs $@ $^

# Where plugins are compiled before anything is installed.
$(B)/include/lx/kernel.h: gpu/kernel.h
	@mkdir -p $(@D)
	cp $< $@

$(B)/liblx.so.0: $(LIB_OBJ)
	$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^ $(LIBS)

define link
@mkdir -p $(@D)
$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
endef
$(B)/bin/%: $(B)/cmd/%.o $(B)/cmd/cmd.o $(B)/libgpu.a $(B)/libformats.a $(B)/liblx.a
	$(link)
$(B)/device/%: $(B)/tests/device/%.o $(B)/libgpu.a $(B)/libformats.a $(B)/liblx.a
	$(link)
$(B)/unit/%: $(B)/tests/unit/%.o $(B)/libgpu.a $(B)/libformats.a $(B)/liblx.a
	$(link)
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(B)/libformats.a $(B)/liblx.a
	$(link)
$(B)/tool/%: $(B)/tests/tool/%.o $(B)/libformats.a $(B)/liblx.a
	$(link)
$(B)/tests/bench/minhash.o: ALL_CFLAGS += -O3
$(B)/bench/%: $(B)/tests/bench/%.o $(B)/libformats.a $(B)/liblx.a
	$(link)

submake = $(MAKE) -s --no-print-directory -j$(shell nproc)

deps:
	@tests/deps build demo check bench

check:
	@tests/deps build check
	@$(submake) all units
	@$(if $(SAN),,$(submake) SAN=address,undefined all units)
	@tests/run $(B) $(if $(SAN),,build-address-undefined)

demo:
	@tests/deps build demo
	@$(submake) all
	@PATH='$(abspath $(B)/bin)':"$$PATH" examples/pdf-text.sh -o $(B)/demo examples/data

bench: all $(HELPERS) $(BENCHES)
	@tests/deps bench
	@B='$(abspath $(B))' tests/bench/run

check-gpu bench-gpu: $(TOOLS) $(DEVICE)
	@B='$(abspath $(B))' tests/device/run $(@:-gpu=)

D = $(DESTDIR)$(PREFIX)
HEADERS = $(filter-out %-int.h,$(wildcard lib/*.h)) gpu/kernel.h
MAN = $(foreach s,1 5 7,$(wildcard man/*.$(s)))
install: all
	install -d $(D)/bin $(D)/lib/pkgconfig $(D)/include/lx $(foreach s,1 5 7,$(D)/share/man/man$(s))
	install $(TOOLS) $(D)/bin
	install -m 644 $(LIBLX) $(D)/lib
	ln -sf liblx.so.0 $(D)/lib/liblx.so
	install -m 644 $(HEADERS) $(D)/include/lx
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@PKG@|$(PKG)|' lib/lx.pc.in >$(D)/lib/pkgconfig/lx.pc
	$(foreach m,$(MAN),install -m 644 $(m) $(D)/share/man/man$(subst .,,$(suffix $(m)))/ &&) :

uninstall:
	rm -f $(patsubst $(B)/%,$(D)/%,$(TOOLS)) $(patsubst $(B)/%,$(D)/lib/%,$(LIBLX)) $(D)/lib/liblx.so $(D)/lib/pkgconfig/lx.pc
	rm -f $(addprefix $(D)/include/lx/,$(notdir $(HEADERS))) $(foreach m,$(MAN),$(D)/share/man/man$(subst .,,$(suffix $(m)))/$(notdir $(m)))
	-rmdir $(D)/include/lx

clean:
	rm -rf build build-*

FORCE:
.PHONY: all units deps check demo bench check-gpu bench-gpu install uninstall clean FORCE
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
