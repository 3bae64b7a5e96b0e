# SPDX-License-Identifier: Apache-2.0
# Sourced by gpu_check.sh, with `here` the folder of this file and the caller's arguments: sets `folder` to the one of
# the server, its module and tests/, and puts the libraries that were packed with them before the caller's
# LD_LIBRARY_PATH, which `caller_libraries` keeps. The first argument, a build folder (build/release), an unpacked
# bundle or bin of a dist; else the place that this file lies in.
folder=
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  folder=$1
  shift
fi
for place in "$here/.." "$here/../bin" "$here/../build/release"; do
  [ -n "$folder" ] || { [ -x "$place/dunlin" ] && folder=$place; }
done
folder=$(cd "${folder:?no server beside these tests}" && pwd)
caller_libraries=${LD_LIBRARY_PATH-}
for libraries in "$folder/lib" "$folder/../lib"; do
  if [ -e "$libraries/libstdc++.so.6" ]; then
    export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
done
