// SPDX-License-Identifier: Apache-2.0
// A first program: npm install e2b; eval "$(atoll env)"; node first-program.mjs
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
try {
  await sandbox.files.write('/home/user/hello.py', 'import sys\nprint(f"hello from Python {sys.version.split()[0]}")\n')
  const result = await sandbox.commands.run('python3 hello.py')
  console.log(result.stdout.trim())

  await sandbox.commands.run('for i in 1 2 3; do echo "step $i"; sleep 0.2; done', {
    onStdout: (text) => process.stdout.write(text),
  })
  const files = await sandbox.files.list('/home/user')
  console.log(files.map((file) => file.name).join(' '))
} finally {
  await sandbox.kill()
}
