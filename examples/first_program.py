# SPDX-License-Identifier: Apache-2.0
# A first program: pip install e2b; eval "$(atoll env)"; python3 first_program.py
from e2b import Sandbox

sandbox = Sandbox.create(timeout=60)
try:
    sandbox.files.write("/home/user/hello.py", 'import sys\nprint(f"hello from Python {sys.version.split()[0]}")\n')
    result = sandbox.commands.run("python3 hello.py")
    print(result.stdout.strip())

    sandbox.commands.run('for i in 1 2 3; do echo "step $i"; sleep 0.2; done', on_stdout=lambda text: print(text, end=""))
    print(" ".join(file.name for file in sandbox.files.list("/home/user")))
finally:
    sandbox.kill()
