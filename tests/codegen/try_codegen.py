# SPDX-License-Identifier: MIT
"""check_codegen.py, tried: it fails where it must, and says which instruction was expected and how often it was found."""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parent / "check_codegen.py"
# In place of a generator: the assembly has one vfmadd231ps and three vinsertps. It fails where a parameter is none.
GENERATOR = f"""#!{sys.executable}
import pathlib, sys
folder, name = (pathlib.Path(sys.argv[sys.argv.index(option) + 1]) for option in ("-o", "-n"))
if "refused=1" in sys.argv: sys.exit("attune: refused is 1, must be 0")
(folder / name).with_suffix(".s").write_text("vfmadd231ps %zmm0\\n" + 3 * "vinsertps $16\\n")
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        generator = pathlib.Path(folder) / "op.generator"
        generator.write_text(GENERATOR)
        generator.chmod(0o755)

        def check(*arguments, products="assembly"):
            result = subprocess.run([sys.executable, CHECK, "kernel", "--generator", generator, "--folder", folder,
                                     "--products", products, *arguments], capture_output=True, text=True)
            return result.returncode, (result.stdout + result.stderr).strip()

        cases = [
            (["--contains", "vfmadd231ps", "--lacks", "vgatherdps", "--at-most", "3", "vinsertps"], ""),
            (["--contains", "vscalefps"], "kernel, assembly: expected at least 1 of vscalefps, found 0"),
            (["--lacks", "vfmadd.*ps"], "kernel, assembly: expected none of vfmadd.*ps, found 1, such as: vfmadd231ps %zmm0"),
            (["--at-most", "2", "vinsertps"],
             "kernel, assembly: expected at most 2 of vinsertps, found 3, such as: vinsertps $16"),
            (["--contains", "vfmadd231ps", "--lacks", "vinsertps"],
             "kernel, assembly: expected none of vinsertps, found 3, such as: vinsertps $16"),
            (["--contains", "vfmadd231ps", "--", "refused=1"],
             "attune: refused is 1, must be 0\nkernel: the generator failed"),
        ]
        for arguments, said in cases:
            assert check(*arguments) == (1 if said else 0, said), (arguments, check(*arguments))
        assert check("--contains", "vfmadd231ps", products="object,assembly") == (
            1, "kernel: object was asked for and was not made")
        assert check("--contains", "vfmadd231ps", products="object") == (
            1, "kernel: assembly was not asked for and was made")
        assert "nothing is expected" in check()[1] and check()[0] != 0


main()
