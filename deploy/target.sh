# SPDX-License-Identifier: Apache-2.0
# Sourced, in the root of the tree. set_target PROGRAM: what packs and asks PROGRAM, which is of this machine or of the
# cross build for aarch64: `machine` (as uname -m), `tools` (the prefix of binutils) and, exported, EMULATOR (what starts
# the program), SYSROOT and DPKG_ADMINDIR (where its packages are installed); those are empty or unset for this machine.
set_target() {
  machine=$(readelf -h "$1" | sed -n 's/^ *Machine: *//p')
  case $machine in
    AArch64) machine=aarch64 ;;
    *X86-64) machine=x86_64 ;;
    *) echo "no target for programs of \"$machine\"" >&2; return 1 ;;
  esac
  tools=
  export EMULATOR= SYSROOT=
  [ "$machine" != "$(uname -m)" ] || return 0
  tools=$machine-linux-gnu-
  SYSROOT=$PWD/build/$machine-sysroot
  [ -d "$SYSROOT" ] || { echo "no $SYSROOT: deploy/arm64_sysroot.sh" >&2; return 1; }
  EMULATOR="qemu-$machine -L $SYSROOT"
  export DPKG_ADMINDIR=$SYSROOT/var/lib/dpkg
}

# As ldd, with the paths of this machine.
loaded_by() {
  if [ -z "$EMULATOR" ]; then
    ldd "$1"
  else
    $EMULATOR -E LD_TRACE_LOADED_OBJECTS=1 "$1" | sed -E "s#(=> |^\s*)(/(usr/)?lib/)#\1$SYSROOT\2#"
  fi
}
