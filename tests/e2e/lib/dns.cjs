// SPDX-License-Identifier: Apache-2.0
// Preload (node --require): names under the domain of the instance under test are on this machine. Stands in for
// the name resolution that a user sets up; the clients themselves stay unmodified.
const dns = require('node:dns');

const suffix = '.' + (process.env.ATOLL_E2E_DOMAIN || 'atoll.localhost').split(':')[0];
const original = dns.lookup;

function lookup(host, options, callback) {
  if (typeof options === 'function') [options, callback] = [{}, options];
  if (!String(host).toLowerCase().endsWith(suffix)) return original(host, options, callback);
  if (options && options.all) return process.nextTick(callback, null, [{ address: '127.0.0.1', family: 4 }]);
  return process.nextTick(callback, null, '127.0.0.1', 4);
}

dns.lookup = lookup;
