#!/bin/sh
# Last step of the `code-interpreter` image, after those of `base`: the libraries of data work, every one pinned.
set -eu

work=/var/tmp/customize
rm -rf "$work" && mkdir -p "$work"

echo "customize: libraries"
cat > "$work/requirements.txt" <<'REQUIREMENTS'
asttokens==3.0.2
certifi==2026.10.18
charset-normalizer==3.5.2
cloudpickle==3.1.2
comm==0.2.3
contourpy==1.3.3
cycler==0.12.1
debugpy==1.8.22
et_xmlfile==2.0.0
executing==2.3.0
fonttools==4.68.0
idna==3.20
ipykernel==7.4.0
ipython==9.18.1
ipython_pygments_lexers==1.1.1
jedi==0.20.1
joblib==1.6.0
jupyter_client==8.10.0
jupyter_core==5.9.1
kiwisolver==1.5.1
matplotlib-inline==0.2.2
matplotlib==3.11.2
mpmath==1.3.0
narwhals==2.28.0
nest-asyncio2==1.7.4
numpy==2.4.6
openpyxl==3.1.5
packaging==26.3
pandas==3.1.1
parso==0.8.7
pexpect==4.9.0
pillow==13.0.0
platformdirs==4.14.5
prompt_toolkit==3.0.53
psutil==7.2.2
ptyprocess==0.7.0
pure_eval==0.2.4
Pygments==2.21.0
pyparsing==3.3.3
python-dateutil==4.0.0
pyzmq==27.3.0
requests==2.34.2
scikit-learn==1.9.1
scipy==1.17.1
seaborn==0.13.2
stack-data==0.6.3
sympy==1.14.0
threadpoolctl==3.8.0
tornado==6.6.1
traitlets==5.16.1
typing_extensions==4.16.0
tzdata==2026.6
urllib3==2.8.0
wcwidth==0.9.4
REQUIREMENTS
pip install --quiet --no-cache-dir --no-deps --only-binary :all: --requirement "$work/requirements.txt"
python3 -m ipykernel install --name python3 --display-name "Python 3" > /dev/null

# No display in a sandbox: plots are drawn into files. The font list is made here, not in the first plot of every sandbox.
mkdir -p /etc/matplotlib
echo 'backend: Agg' > /etc/matplotlib/matplotlibrc
echo 'export MATPLOTLIBRC=/etc/matplotlib/matplotlibrc' > /etc/profile.d/matplotlib.sh

echo "customize: proof"
MPLBACKEND=Agg python3 - <<'PROOF'
import io, matplotlib.pyplot as plot, numpy, pandas, scipy.stats, sklearn.linear_model
frame = pandas.DataFrame({"x": numpy.arange(10.0)})
frame["y"] = 3 * frame.x + 1
fit = sklearn.linear_model.LinearRegression().fit(frame[["x"]], frame.y)
assert abs(fit.coef_[0] - 3) < 1e-9 and scipy.stats.pearsonr(frame.x, frame.y).statistic > 0.999
plot.plot(frame.x, frame.y)
picture = io.BytesIO()
plot.savefig(picture, format="png")
assert picture.getvalue().startswith(b"\x89PNG")
print("numpy", numpy.__version__, "pandas", pandas.__version__, "scipy", scipy.__version__, "scikit-learn", sklearn.__version__)
PROOF
jupyter-kernelspec list

rm -rf "$work" /root/.npm /root/.config /root/.local /root/.ipython
find /usr/local/lib/python3* -depth -type d -name tests -path '*-packages*' -exec rm -rf {} +
