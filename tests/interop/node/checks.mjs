// SPDX-License-Identifier: Apache-2.0
// What the programs of this folder share. Arguments and output as of checks.py: BASE_URL MODEL ENCODER; a JSON line for
// each check.
const LIMIT_MS = 60000;
export const [baseUrl, model, encoder] = process.argv.slice(2);

export async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    let error = null;
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`took longer than ${LIMIT_MS / 1000} s`)), LIMIT_MS);
    });
    try {
      await Promise.race([check(), late]);
    } catch (failure) {
      error = `${failure.name}: ${failure.message}`;
      console.error(failure);
    }
    clearTimeout(timer);
    console.log(JSON.stringify({ check: name, error }));
  }
}
